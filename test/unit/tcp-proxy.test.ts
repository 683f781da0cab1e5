import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { listen } from '../support/loopback.ts'
import { eventually } from '../support/eventually.ts'

/** What reached the server behind the proxy. It answers everything with the same text in capitals. */
let received = ''
let server: Server
let proxy: TcpProxy
const sockets = new Set<Socket>()

beforeEach(async () => {
  received = ''
  server = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (data) => {
      received += String(data)
      socket.write(String(data).toUpperCase())
    })
  })
  proxy = await TcpProxy.start({ port: await listen(server) })
})

afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets.clear()
  await proxy.stop()
  server.close()
})

async function dial(): Promise<{ socket: Socket; heard: () => string }> {
  const socket = connect(proxy.port, proxy.host)
  sockets.add(socket)
  let text = ''
  socket.on('error', () => {})
  socket.on('data', (data) => (text += String(data)))
  await once(socket, 'connect')
  return { socket, heard: () => text }
}

/** Unlike `once`, content with a reset. */
function closing(socket: Socket): Promise<unknown> {
  return new Promise((resolve) => socket.once('close', resolve))
}

describe('the proxy for fault tests', () => {
  test('passes data on in both directions', async () => {
    const { socket, heard } = await dial()
    socket.write('hello')
    await eventually(() => heard() === 'HELLO', 'the answer')
    expect(proxy.connections).toBe(1)
  })

  test('cuts after a request was carried out and before its answer comes back', async () => {
    const { socket, heard } = await dial()
    const closed = closing(socket)
    const cut = proxy.cutAfterRequest()
    socket.write('claim')
    await Promise.all([cut, closed])
    expect(received).toBe('claim')
    expect(heard()).toBe('')
    const again = await dial()
    again.socket.write('again')
    await eventually(() => again.heard() === 'AGAIN', 'the answer')
  })

  test('passes on after a pause what came during it', async () => {
    const { socket, heard } = await dial()
    proxy.pause()
    socket.write('later')
    await pause(30)
    expect(received + heard()).toBe('')
    proxy.resume()
    await eventually(() => heard() === 'LATER', 'the answer')
  })

  test('drops answers, or delays them', async () => {
    const { socket, heard } = await dial()
    proxy.dropReplies = true
    socket.write('lost')
    await eventually(() => proxy.droppedBytes === 4, 'the dropped bytes')
    proxy.dropReplies = false
    proxy.delayMs = 20
    socket.write('slow')
    await eventually(() => heard() === 'SLOW', 'the answer')
  })

  test('refuses until it is restored', async () => {
    const { socket } = await dial()
    const closed = closing(socket)
    proxy.refuse()
    await closed
    const refused = connect(proxy.port, proxy.host)
    refused.on('error', () => {})
    await closing(refused)
    proxy.restore()
    const { socket: third, heard } = await dial()
    third.write('x')
    await eventually(() => heard() === 'X', 'the answer')
  })

  test.each<[string, () => unknown]>([
    ['cut before a request', () => proxy.cutBeforeRequest()],
    ['cut after a request', () => void proxy.cutAfterRequest()],
    ['lose a reply', () => proxy.loseReplyAfter(0)],
    ['refuse', () => proxy.refuse()],
    ['be paused', () => proxy.pause()],
  ])('passes everything on again when it is mended, though it was to %s', async (_, begin) => {
    begin()
    proxy.mend()
    const { socket, heard } = await dial()
    socket.write('hello')
    await eventually(() => heard() === 'HELLO', 'the answer')
  })

  test('ends connections that are silent when it is mended, and no others', async () => {
    const { socket: silent } = await dial()
    await eventually(() => proxy.connections === 1, 'the connection')
    proxy.silence()
    const { socket, heard } = await dial()
    await eventually(() => proxy.connections === 2, 'the connection')
    const closed = closing(silent)
    proxy.mend()
    await closed
    socket.write('hello')
    await eventually(() => heard() === 'HELLO', 'the answer')
  })
})
