/** What a node may do to a connection, played by a server that speaks HTTP/2 and means it ill. */
import { constants, createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { CallFault } from '../../src/drivers/etcd/rpc/errors.ts'
import { frame } from '../../src/drivers/etcd/rpc/frames.ts'
import { BadMessage } from '../../src/drivers/etcd/rpc/protobuf.ts'
import { Session } from '../../src/drivers/etcd/rpc/session.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'

let server: Http2Server
let session: Session
let peers: ServerHttp2Session[]
let sockets: Socket[]
/** What the server does with the next call. */
let act: (stream: ServerHttp2Stream) => void

beforeEach(async () => {
  peers = []
  sockets = []
  server = createServer()
  server.on('connection', (socket: Socket) => sockets.push(socket))
  server.on('session', (peer) => peers.push(peer.on('error', () => {})))
  server.on('stream', (stream) => {
    stream.on('error', () => {})
    act(stream)
  })
  const port = await freePort()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  session = await Session.open({ endpoint: { host: '127.0.0.1', port }, tls: undefined }, 2000)
})

afterEach(async () => {
  session.close()
  await new Promise((resolve) => server.close(resolve))
})

/** Answers as etcd does, with this in place of a message. */
function answer(stream: ServerHttp2Stream, data: Buffer, status = '0'): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status }))
  stream.end(data)
}

const hello = frame(Buffer.from('hello'))
const call = (timeoutMs = 2000): Promise<Buffer> => session.call('/a/call', Buffer.from('poll'), timeoutMs)

describe('a call', () => {
  test('is answered by the first message, whatever follows', async () => {
    act = (stream) => answer(stream, Buffer.concat([hello, frame(Buffer.from('again'))]))
    expect((await call()).toString()).toBe('hello')
  })

  test.each<[string, (stream: ServerHttp2Stream) => void]>([
    ['that is reset', (stream) => stream.close(constants.NGHTTP2_INTERNAL_ERROR)],
    [
      'that is reset after its answer has begun',
      (stream) => {
        stream.respond({ ':status': 200 })
        stream.write(hello.subarray(0, 7), () => stream.close(constants.NGHTTP2_INTERNAL_ERROR))
      },
    ],
    [
      'that is answered without a word on how it ended',
      (stream) => {
        stream.respond({ ':status': 200 })
        stream.end(hello)
      },
    ],
    ['that is answered with half a message', (stream) => answer(stream, hello.subarray(0, 7))],
    ['that is answered with nothing', (stream) => answer(stream, Buffer.alloc(0))],
    [
      'that a proxy answers',
      (stream) => {
        stream.respond({ ':status': 503 })
        stream.end('no')
      },
    ],
    ['whose connection is cut', (stream) => stream.session?.destroy()],
    ['that the node disowns as it goes away', (stream) => stream.session?.goaway(constants.NGHTTP2_NO_ERROR, 0)],
    ['that is never answered', () => {}],
  ])('%s may have been carried out', async (_, how) => {
    act = how
    const fault: unknown = await call(300).catch((error: unknown) => error)
    expect(fault).toBeInstanceOf(CallFault)
    expect(fault).toMatchObject({ refused: false, status: undefined })
  })

  test('that is answered with something else may have been carried out', async () => {
    act = (stream) => answer(stream, Buffer.from([1, 0, 0, 0, 1, 7]))
    await expect(call()).rejects.toThrow(BadMessage)
  })

  test('under way is answered though the node goes away, and no more are sent', async () => {
    act = (stream) => {
      stream.session?.goaway(constants.NGHTTP2_NO_ERROR, stream.id)
      void eventually(() => !session.usable, 'the end of its use').then(() => answer(stream, hello))
    }
    expect((await call()).toString()).toBe('hello')
    await expect(call()).rejects.toMatchObject({ refused: true })
    await eventually(() => session.over && peers.every(({ destroyed }) => destroyed), 'the end of the connection')
  })
})

test('a connection that has just ended is of no more use, and says so', async () => {
  act = () => sockets.forEach((socket) => socket.resetAndDestroy())
  const pinged = await new Promise<boolean>((resolve, reject) => {
    const ended = (): void => void session.ping(1000).then(resolve, reject)
    session.stream('/a/stream', () => {}, ended)
  })
  expect(pinged).toBe(false)
})

describe('a stream', () => {
  test.each<[string, (stream: ServerHttp2Stream) => void]>([
    ['is reset', (stream) => stream.close(constants.NGHTTP2_CANCEL)],
    ['brings something else', (stream) => answer(stream, Buffer.from([1, 0, 0, 0, 1, 7]))],
    ['is on a connection that is given up', () => session.retire()],
    ['is on a connection whose node goes away', (stream) => stream.session?.goaway(constants.NGHTTP2_NO_ERROR)],
  ])('that %s ends once', async (_, how) => {
    act = how
    let ends = 0
    const stream = session.stream(
      '/a/stream',
      () => {},
      () => (ends += 1),
    )
    await eventually(() => ends > 0, 'its end')
    stream.send(Buffer.from('late'))
    stream.close()
    session.close()
    await eventually(() => session.over, 'the end of the connection')
    expect(ends).toBe(1)
  })
})
