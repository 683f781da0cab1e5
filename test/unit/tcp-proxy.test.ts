import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { TcpProxy } from '../support/tcp-proxy.ts'

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
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  proxy = await TcpProxy.start({ port: (server.address() as AddressInfo).port })
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

async function until(holds: () => boolean): Promise<void> {
  const deadline = Date.now() + 30_000
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`It did not come to that: ${String(holds)}`)
    await pause(2)
  }
}

describe('the proxy for fault tests', () => {
  test('passes data on in both directions', async () => {
    const { socket, heard } = await dial()
    socket.write('hello')
    await until(() => heard() === 'HELLO')
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
    await until(() => again.heard() === 'AGAIN')
  })

  test('passes on after a pause what came during it', async () => {
    const { socket, heard } = await dial()
    proxy.pause()
    socket.write('later')
    await pause(30)
    expect(received + heard()).toBe('')
    proxy.resume()
    await until(() => heard() === 'LATER')
  })

  test('drops answers, or delays them', async () => {
    const { socket, heard } = await dial()
    proxy.dropReplies = true
    socket.write('lost')
    await until(() => proxy.droppedBytes === 4)
    proxy.dropReplies = false
    proxy.delayMs = 20
    socket.write('slow')
    await until(() => heard() === 'SLOW')
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
    await until(() => heard() === 'X')
  })
})
