import type { Duplex } from 'node:stream'
import type { FuzzedCall } from './fuzzed-inputs.ts'

/** What became of one call. */
export interface Outcome {
  readonly call: FuzzedCall
  /** The head of the answer and the beginning of its body; empty: the connection was closed without any. */
  readonly answer: string
  readonly tookMs: number
}

const endOfHead = Buffer.from('\r\n\r\n')
const answerShown = 5000

/** Sends calls in rows, each row on one connection before any answer of it has come, and reads the answers in their order. */
export class PipelinedCalls {
  readonly #connect: () => Duplex
  readonly #token: string
  readonly #giveUpMs: number

  /** `connect` gives a connection whose errors are handled. */
  constructor(connect: () => Duplex, token: string, giveUpMs: number) {
    this.#connect = connect
    this.#token = token
    this.#giveUpMs = giveUpMs
  }

  /** The outcomes of all calls. A call behind an answer that closes its connection is sent again on another. */
  async row(calls: readonly FuzzedCall[]): Promise<readonly Outcome[]> {
    const outcomes: Outcome[] = []
    while (outcomes.length < calls.length) {
      const left = calls.slice(outcomes.length)
      const [first] = left
      const answered = await this.#connection(left)
      outcomes.push(...answered)
      // The first of them had the connection for itself.
      if (answered.length === 0 && first !== undefined) outcomes.push({ call: first, answer: '', tookMs: 0 })
    }
    return outcomes
  }

  #connection(calls: readonly FuzzedCall[]): Promise<readonly Outcome[]> {
    return new Promise((resolve) => {
      const socket = this.#connect()
      const sentAt = performance.now()
      const outcomes: Outcome[] = []
      let received: Buffer = Buffer.alloc(0)
      const giveUp = setTimeout(() => {
        const call = calls[outcomes.length]
        if (call !== undefined) outcomes.push({ call, answer: '', tookMs: performance.now() - sentAt })
        socket.destroy()
      }, this.#giveUpMs)
      socket.on('data', (piece: Buffer) => {
        received = received.length === 0 ? piece : Buffer.concat([received, piece])
        for (let answer = wholeAnswer(received); answer !== undefined; answer = wholeAnswer(received)) {
          received = received.subarray(answer.length)
          const call = calls[outcomes.length]
          if (call === undefined) return void socket.destroy()
          outcomes.push({ call, answer: answer.text, tookMs: performance.now() - sentAt })
          if (answer.isLast || outcomes.length === calls.length) return void socket.destroy()
        }
      })
      socket.once('close', () => {
        clearTimeout(giveUp)
        resolve(outcomes)
      })
      socket.write(calls.map((call) => this.#textOf(call)).join(''))
    })
  }

  #textOf({ method, path, body }: FuzzedCall): string {
    const head = `${method} ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${this.#token}\r\n`
    if (body === undefined) return `${head}\r\n`
    return `${head}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  }
}

/** The first answer of what was received, if all of it is there. Of a stream, the head is the answer. */
function wholeAnswer(
  received: Buffer,
): { readonly text: string; readonly length: number; readonly isLast: boolean } | undefined {
  const headLength = received.indexOf(endOfHead)
  if (headLength < 0) return undefined
  const head = received.toString('latin1', 0, headLength)
  const [, bodyLength] = /\r\ncontent-length: (\d+)/i.exec(head) ?? []
  const length = headLength + endOfHead.length + Number(bodyLength ?? 0)
  if (received.length < length) return undefined
  const text = received.toString('utf8', 0, Math.min(length, answerShown))
  return { text, length, isLast: bodyLength === undefined || /\r\nconnection: close/i.test(head) }
}
