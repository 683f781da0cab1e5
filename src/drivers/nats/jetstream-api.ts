/** JetStream over a connection: requests with JSON, of which the answer says what went wrong. */
import { messageHeaders, type NatsConnectionLike } from './client.ts'
import { apiCode, JetStreamRefusal, NoJetStream } from './errors.ts'

interface ApiReply {
  readonly error?: { readonly code?: number; readonly err_code?: number; readonly description?: string }
}

/** A message as the stream keeps it. */
export interface StreamMessage {
  readonly subject: string
  readonly seq: number
  /** The value, in base64; absent if it is empty. */
  readonly data?: string
  /** When the server stored it. */
  readonly time: string
}

interface StreamInfoReply {
  readonly total?: number
  readonly state?: { readonly subjects?: object; readonly last_ts?: string }
}

const decoder = new TextDecoder()

export class JetStreamApi {
  readonly #connection: NatsConnectionLike
  readonly #timeoutMs: number

  constructor(connection: NatsConnectionLike, timeoutMs: number) {
    this.#connection = connection
    this.#timeoutMs = timeoutMs
  }

  /** Whether the server that we are connected to has this version or a later one. */
  isAtLeast(major: number, minor: number): boolean {
    const [ofMajor = 0, ofMinor = 0] = (this.#connection.info?.version ?? '').split('.').map(Number)
    return ofMajor > major || (ofMajor === major && ofMinor >= minor)
  }

  /** One call; rejects with {@link JetStreamRefusal} if the answer is an error. */
  call(method: string, body: object, withinMs = this.#timeoutMs): Promise<object> {
    return this.#request(`$JS.API.${method}`, JSON.stringify(body), withinMs)
  }

  /** A message of a stream, as its leader has it; undefined: there is none. */
  async message(stream: string, which: object, withinMs?: number): Promise<StreamMessage | undefined> {
    try {
      const reply = (await this.call(`STREAM.MSG.GET.${stream}`, which, withinMs)) as { readonly message?: unknown }
      if (!isStreamMessage(reply.message)) throw new NoJetStream('The answer has no message')
      return reply.message
    } catch (error) {
      if (error instanceof JetStreamRefusal && error.code === apiCode.noMessage) return undefined
      throw error
    }
  }

  /** The subjects of all messages of a stream. */
  async subjects(stream: string, filter: string): Promise<readonly string[]> {
    const subjects: string[] = []
    for (;;) {
      const query = { subjects_filter: filter, offset: subjects.length }
      const { state, total = 0 } = (await this.call(`STREAM.INFO.${stream}`, query)) as StreamInfoReply
      const page = Object.keys(state?.subjects ?? {})
      for (const subject of page) subjects.push(subject)
      if (page.length === 0 || subjects.length >= total) return subjects
    }
  }

  /** When the newest message was stored, by the server's clock. */
  async newestAt(stream: string): Promise<number> {
    const { state } = (await this.call(`STREAM.INFO.${stream}`, {})) as StreamInfoReply
    return Date.parse(state?.last_ts ?? '')
  }

  /** Stores a message; the answer is its sequence number. */
  async store(
    subject: string,
    payload: string,
    headers: Readonly<Record<string, string>>,
    withinMs = this.#timeoutMs,
  ): Promise<number> {
    const { seq } = (await this.#request(subject, payload, withinMs, headers)) as { readonly seq?: unknown }
    if (!Number.isSafeInteger(seq) || (seq as number) < 1) throw new NoJetStream('The answer has no sequence number')
    return seq as number
  }

  async #request(
    subject: string,
    payload: string,
    withinMs: number,
    headers?: Readonly<Record<string, string>>,
  ): Promise<object> {
    const options = { timeout: Math.max(1, withinMs), ...(headers && { headers: messageHeaders(headers) }) }
    const { data } = await this.#connection.request(subject, payload, options)
    const reply = parsed(data)
    if (reply.error === undefined) return reply
    const { code = 0, err_code = code, description = 'an error without a description' } = reply.error
    throw new JetStreamRefusal(err_code, description)
  }
}

function parsed(data: Uint8Array): ApiReply {
  try {
    const reply = JSON.parse(decoder.decode(data)) as ApiReply | null
    if (typeof reply === 'object' && reply !== null) return reply
  } catch {
    // Below.
  }
  throw new NoJetStream('The answer is not JSON')
}

function isStreamMessage(value: unknown): value is StreamMessage {
  if (typeof value !== 'object' || value === null) return false
  const { subject, seq, data = '', time } = value as Partial<Record<keyof StreamMessage, unknown>>
  const areTexts = [subject, data, time].every((text) => typeof text === 'string')
  return areTexts && Number.isSafeInteger(seq) && (seq as number) > 0
}
