/**
 * A TCP proxy on the loopback address that breaks connections in the ways networks do: cut after a request was carried
 * out, silent in one or both directions, slow, gone.
 */
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './free-port.ts'

export interface ProxyTarget {
  readonly port: number
  readonly host?: string
}

/** One client's connection and the one made for it to the target. */
interface Link {
  readonly client: Socket
  readonly target: Socket
  /** It passes nothing on, in one direction at least. */
  isSilent: boolean
}

export class TcpProxy {
  readonly port: number
  readonly host = '127.0.0.1'
  /** How long each piece of data is held back, in either direction, and the end after it. */
  delayMs = 0
  /** Pieces of requests that are held back now. */
  delayedRequests = 0
  /** True: replies of the target are dropped, and the client receives nothing. */
  dropReplies = false
  /** Bytes of replies dropped so far. */
  droppedBytes = 0
  #target: ProxyTarget
  readonly #server: Server
  readonly #links = new Set<Link>()
  #paused = false
  #refusing = false
  #cutAfterRequest: ((cut: void) => void) | undefined
  #cutsBeforeRequest = false
  #repliesToPass = Infinity

  private constructor(port: number, target: ProxyTarget) {
    this.port = port
    this.#target = target
    this.#server = createServer((client) => this.#accept(client))
  }

  /** A proxy that listens on a free port and forwards to the target. */
  static async start(target: ProxyTarget): Promise<TcpProxy> {
    const proxy = new TcpProxy(await freePort(), target)
    await new Promise<void>((resolve, reject) => {
      proxy.#server.once('error', reject)
      proxy.#server.listen(proxy.port, proxy.host, resolve)
    })
    return proxy
  }

  /** Open connections through the proxy. */
  get connections(): number {
    return this.#links.size
  }

  /**
   * Lets the next data of a client through to the target, then cuts that connection once the target has answered, and
   * before the answer gets back: the request was carried out, and its sender cannot know. Resolves when it has cut.
   */
  cutAfterRequest(): Promise<void> {
    return new Promise((resolve) => {
      this.#cutAfterRequest = resolve
    })
  }

  /** Throws the next data of a client away and cuts that connection: the request never arrived, and its sender cannot know. */
  cutBeforeRequest(): void {
    this.#cutsBeforeRequest = true
  }

  /**
   * Lets so many more replies through, counted over all connections. Throws away the one after them, and whatever else
   * comes by its connection; other connections pass on all they get.
   */
  loseReplyAfter(replies: number): void {
    this.#repliesToPass = replies
  }

  /** Half-open: connections stay, new ones are accepted, nothing is passed on in either direction. */
  pause(): void {
    this.#paused = true
    this.silence()
  }

  /** Half-open for good: existing connections stay open and pass nothing on any more; new ones work. */
  silence(): void {
    for (const link of this.#links) {
      link.isSilent = true
      for (const socket of [link.client, link.target]) socket.pause()
    }
  }

  /** Passes on again, beginning with what came while paused. */
  resume(): void {
    this.#paused = false
    for (const link of this.#links) {
      link.isSilent = false
      for (const socket of [link.client, link.target]) socket.resume()
    }
  }

  /** Sends connections to another target from now on, and resets those that there are. */
  redirect(target: ProxyTarget): void {
    this.#target = target
    this.cut()
  }

  /** Resets every connection. New ones are accepted. */
  cut(): void {
    for (const link of this.#links) this.#cutLink(link)
  }

  /** Resets every connection and every new one, until {@link restore}. */
  refuse(): void {
    this.#refusing = true
    this.cut()
  }

  restore(): void {
    this.#refusing = false
  }

  /** Ends every fault: those that wait for data, and connections that are silent. */
  mend(): void {
    this.#cutsBeforeRequest = false
    this.#cutAfterRequest?.()
    this.#cutAfterRequest = undefined
    this.#repliesToPass = Infinity
    this.#paused = false
    this.delayMs = 0
    this.dropReplies = false
    this.restore()
    for (const link of this.#links) if (link.isSilent) this.#cutLink(link)
  }

  async stop(): Promise<void> {
    this.refuse()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }

  #accept(client: Socket): void {
    client.on('error', () => {})
    if (this.#refusing) {
      client.resetAndDestroy()
      return
    }
    const target = connect({ port: this.#target.port, host: this.#target.host ?? '127.0.0.1' })
    const link: Link = { client, target, isSilent: false }
    this.#links.add(link)
    client.setNoDelay(true)
    target.setNoDelay(true)
    target.on('error', () => {})
    for (const socket of [client, target]) socket.on('close', () => this.#later(() => this.#cutLink(link)))
    this.#forward(link)
    if (this.#paused) this.pause()
  }

  #forward(link: Link): void {
    const { client, target } = link
    let doomed: ((cut: void) => void) | undefined
    let muted = false
    client.on('data', (data) => {
      if (this.#cutsBeforeRequest) {
        this.#cutsBeforeRequest = false
        this.#cutLink(link)
        return
      }
      doomed ??= this.#cutAfterRequest
      this.#cutAfterRequest = undefined
      this.delayedRequests += 1
      this.#later(() => {
        this.delayedRequests -= 1
        if (target.writable) target.write(data)
      })
    })
    target.on('data', (data) => {
      if (doomed !== undefined) {
        this.#cutLink(link)
        doomed()
        return
      }
      muted ||= this.#repliesToPass === 0
      this.#repliesToPass = muted && this.#repliesToPass === 0 ? Infinity : this.#repliesToPass - 1
      link.isSilent ||= this.dropReplies || muted
      if (this.dropReplies || muted) this.droppedBytes += data.length
      else this.#later(() => client.writable && client.write(data))
    })
  }

  #later(act: () => unknown): void {
    if (this.delayMs === 0) act()
    else setTimeout(act, this.delayMs)
  }

  #cutLink(link: Link): void {
    if (!this.#links.delete(link)) return
    for (const socket of [link.client, link.target]) if (!socket.destroyed) socket.resetAndDestroy()
  }
}
