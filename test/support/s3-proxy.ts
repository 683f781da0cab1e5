/** An HTTP proxy in front of an S3 server, which does to single requests what S3, proxies and networks do. */
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { onTestFinished } from 'vitest'
import { freePort } from './free-port.ts'

/** A request as it came by. */
export interface ProxiedCall {
  readonly method: string
  readonly path: string
  /** The condition of a write. */
  readonly condition: string | undefined
  readonly body: string
}

/** What becomes of a request. `after`: it is carried out first. */
export type Fate =
  | {
      readonly answer: number
      readonly body?: string
      readonly headers?: Readonly<Record<string, string>>
      readonly after?: true
    }
  | { readonly cut: 'before' | 'after' }
  | { readonly without: string }
  | 'stall'
  | 'endless'

export class S3Proxy {
  readonly port: number
  /** What came by, with the status that was answered. */
  readonly log: (ProxiedCall & { readonly status: number })[] = []
  /** Decides about each request; undefined: it passes. */
  decide: (call: ProxiedCall) => Fate | undefined = () => undefined
  readonly #target: number
  readonly #server: Server
  #closed = false

  private constructor(port: number, target: number) {
    this.port = port
    this.#target = target
    this.#server = createServer(
      (incoming, outgoing) => void this.#serve(incoming, outgoing).catch(() => outgoing.destroy()),
    )
  }

  /** A proxy for one test. */
  static async start({ port: target }: { readonly port: number }): Promise<S3Proxy> {
    const proxy = new S3Proxy(await freePort(), target)
    await new Promise<void>((resolve) => proxy.#server.listen(proxy.port, '127.0.0.1', resolve))
    onTestFinished(() => proxy.stop())
    return proxy
  }

  /** This becomes of the next requests that fit, one after the other. */
  next(fits: (call: ProxiedCall) => boolean, ...fates: readonly (Fate | undefined)[]): void {
    const left = [...fates]
    this.decide = (call) => (fits(call) ? left.shift() : undefined)
  }

  get connections(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)))
    })
  }

  async stop(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = incoming
    const body = await textOf(incoming)
    const condition = headers['if-match'] ?? headers['if-none-match']
    const call = { method, path: url, condition, body }
    const fate = this.decide(call)
    const finish = (status: number, text: string, sent: Readonly<Record<string, unknown>> = {}): void => {
      this.log.push({ ...call, status })
      const { connection: _, 'transfer-encoding': __, 'content-length': ___, ...kept } = sent
      outgoing.writeHead(status, kept as Record<string, string>)
      outgoing.end(text)
    }
    if (fate === 'stall') return
    if (fate === 'endless') return endless(outgoing)
    if (fate !== undefined && 'cut' in fate && fate.cut === 'before') return void incoming.socket.destroy()
    if (fate !== undefined && 'answer' in fate && fate.after === undefined) {
      return finish(fate.answer, fate.body ?? '', fate.headers)
    }
    const kept = { ...headers }
    if (fate !== undefined && 'without' in fate) delete kept[fate.without]
    const reply = await this.#forward(call, kept)
    if (fate !== undefined && 'cut' in fate) {
      this.log.push({ ...call, status: 0 })
      return void incoming.socket.destroy()
    }
    if (fate !== undefined && 'answer' in fate) return finish(fate.answer, fate.body ?? '', fate.headers)
    finish(reply.status, reply.text, reply.headers)
  }

  #forward(
    { method, path, body }: ProxiedCall,
    headers: IncomingMessage['headers'],
  ): Promise<{ status: number; text: string; headers: IncomingMessage['headers'] }> {
    return new Promise((resolve, reject) => {
      const sending = request(
        { host: '127.0.0.1', port: this.#target, method, path, headers, agent: false },
        (response) => {
          textOf(response).then(
            (text) => resolve({ status: response.statusCode ?? 0, text, headers: response.headers }),
            reject,
          )
        },
      )
      sending.on('error', reject)
      sending.end(body)
    })
  }
}

/** An answer that has no end. */
function endless(outgoing: ServerResponse): void {
  outgoing.writeHead(200, { etag: '"0"' })
  const piece = 'x'.repeat(1_048_576)
  const more = (): void => {
    while (!outgoing.destroyed && outgoing.write(piece));
  }
  outgoing.on('drain', more)
  more()
}

async function textOf(message: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of message) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString()
}

/** A fault as S3 writes it. */
export function s3Fault(code: string, more = ''): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>It is &quot;so&quot;.</Message>${more}<RequestId>1</RequestId></Error>`
}
