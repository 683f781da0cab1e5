/**
 * Many clients that only wait, in one process. Arguments: `idle sockets` or `waiting clients`, how many, the server's URL, a token.
 * Prints how many there are when all are there, and then waits to be killed.
 */
import { randomUUID } from 'node:crypto'
import { connect as connectSocket, type Socket } from 'node:net'
import { claimOf, claiming } from '../../test/support/claims.ts'

const [crowd = '', size = '', url = '', token = ''] = process.argv.slice(2)
const port = Number(new URL(url).port)
const signed = `host: localhost\r\nauthorization: Bearer ${token}\r\n`
const sockets: Socket[] = []

function open(): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connectSocket({ port, host: '127.0.0.1' })
    socket.once('connect', () => resolve(socket))
    socket.once('error', reject)
    sockets.push(socket)
  })
}

/** Writes a call, and resolves when something of its answer has come. */
function call(socket: Socket, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    socket.once('data', (piece) => resolve(String(piece)))
    socket.once('close', () => reject(new Error('The connection was closed.')))
    socket.write(text)
  })
}

/** A connection that is kept after a call: one without any is closed when its head does not come. */
async function idle(): Promise<void> {
  const answer = await call(await open(), `GET /v1/store HTTP/1.1\r\n${signed}\r\n`)
  if (!answer.includes(' 200 ')) throw new Error(answer)
}

/** As our client does: a stream for notifications, and a call whose claim waits. */
async function wait(): Promise<void> {
  const session = randomUUID().replaceAll('-', '')
  const stream = await open()
  const answer = await call(stream, `GET /v1/notifications HTTP/1.1\r\n${signed}leasehold-session: ${session}\r\n\r\n`)
  if (!answer.includes(' 200 ')) throw new Error(answer)
  const body = JSON.stringify({ requests: [claiming(claimOf('hostile/named:crowd', { ttlMs: 600_000 }))] })
  const head = `POST /v1/requests HTTP/1.1\r\n${signed}leasehold-session: ${session}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`
  const caller = await open()
  const claimed = await call(caller, head + body)
  if (!claimed.includes(' 200 ')) throw new Error(claimed)
  // A client keeps the connection of its calls for a while, and then the stream alone.
  caller.destroy()
}

for (let made = 0; made < Number(size); made += 100) {
  await Promise.all(Array.from({ length: 100 }, () => (crowd === 'idle sockets' ? idle() : wait())))
}
console.log(sockets.filter(({ destroyed }) => !destroyed).length)
setInterval(() => {}, 60_000)
