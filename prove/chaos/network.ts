import type { TcpProxy } from '../../test/support/tcp-proxy.ts'
import type { Heal } from './store.ts'

/** What happens to one connection, or to all that go through one proxy. Each resolves to what ends it. */
export const networkFaults: Readonly<Record<string, (proxy: TcpProxy) => Heal>> = {
  cut: (proxy) => {
    proxy.cut()
    return () => {}
  },
  'cut before commit': (proxy) => {
    proxy.cutBeforeRequest()
    return () => {}
  },
  'cut after commit': (proxy) => {
    void proxy.cutAfterRequest()
    return () => {}
  },
  'lost reply': (proxy) => {
    proxy.loseReplyAfter(0)
    return () => proxy.cut()
  },
  'half open': (proxy) => {
    proxy.pause()
    return () => proxy.resume()
  },
  'silent for good': (proxy) => {
    proxy.silence()
    return () => {}
  },
  'black hole': (proxy) => {
    proxy.dropReplies = true
    return () => {
      proxy.dropReplies = false
      // What was dropped would be missed in the middle of the stream.
      proxy.cut()
    }
  },
  'slow link': (proxy) => {
    proxy.delayMs = 120
    return () => {
      proxy.delayMs = 0
      // Data sent from now on would overtake what is still held back.
      proxy.cut()
    }
  },
  refused: (proxy) => {
    proxy.refuse()
    return () => proxy.restore()
  },
}
