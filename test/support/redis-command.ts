import { once } from 'node:events'
import { connect } from 'node:net'

const answeredWithinMs = 30_000

/**
 * Sends one command on a connection of its own. Resolves to the answer as redis-cli prints it, also to an error: to start that program hundreds
 * of times took longer than the tests.
 */
export async function redisCommand(port: number, words: readonly string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  const timeout = AbortSignal.timeout(answeredWithinMs)
  const end = (): void => void socket.destroy(new Error(`No answer to ${words[0]} within ${answeredWithinMs} ms.`))
  timeout.addEventListener('abort', end)
  try {
    await once(socket, 'connect')
    const bulks = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`)
    socket.write(`*${words.length}\r\n${bulks.join('')}`)
    let received = Buffer.alloc(0)
    for await (const chunk of socket) {
      received = Buffer.concat([received, chunk as Buffer])
      const answer = replyAt(received, 0)
      if (answer !== undefined) return answer.text
    }
    throw new Error(`The connection ended before ${words[0]} was answered.`)
  } finally {
    timeout.removeEventListener('abort', end)
    socket.destroy()
  }
}

/** The reply that begins at a byte, a line for each of its parts, or undefined if some of it has yet to arrive. */
function replyAt(bytes: Buffer, start: number): { text: string; end: number } | undefined {
  const lineEnd = bytes.indexOf('\r\n', start)
  if (lineEnd === -1) return undefined
  const type = String.fromCharCode(bytes[start] ?? 0)
  const line = bytes.toString('utf8', start + 1, lineEnd)
  let end = lineEnd + 2
  if (type === '$') {
    if (line === '-1') return { text: '', end }
    const from = end
    end += Number(line) + 2
    return end > bytes.length ? undefined : { text: bytes.toString('utf8', from, end - 2), end }
  }
  if (type !== '*') return { text: line, end }
  const parts: string[] = []
  for (let part = 0; part < Number(line); part += 1) {
    const reply = replyAt(bytes, end)
    if (reply === undefined) return undefined
    parts.push(reply.text)
    end = reply.end
  }
  return { text: parts.join('\n'), end }
}
