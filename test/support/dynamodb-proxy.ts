/**
 * Stands between the AWS SDK and the local DynamoDB: records requests, loses replies, and answers what AWS answers and the local server
 * cannot, as it has no permissions, no capacity and no replicas.
 */
import { createServer, request as forward, type IncomingMessage, type ServerResponse } from 'node:http'
import { onTestFinished } from 'vitest'
import type { DynamodbServer } from './dynamodb-server.ts'
import { freePort } from './free-port.ts'

/** A request as the SDK sent it. */
export interface DynamodbRequest {
  readonly command: string
  readonly input: Readonly<Record<string, unknown>>
}

/** What becomes of a request, in place of being passed on. */
export type DynamodbFault =
  /** An error of AWS. Nothing was carried out. */
  | { readonly error: string; readonly message?: string; readonly status?: number }
  /** Carried out, and the connection ends without a reply. */
  | 'lose reply'
  /** Not carried out, and no answer ever. */
  | 'silence'
  /** Carried out; the reply is changed. */
  | ((reply: Record<string, unknown>) => unknown)

export class DynamodbProxy {
  readonly port: number
  readonly requests: DynamodbRequest[] = []
  /** Asked for each request; undefined: it is passed on. */
  fault: (request: DynamodbRequest) => DynamodbFault | undefined | Promise<DynamodbFault | undefined> = () => undefined
  /** Requests that are being carried out. */
  underWay = 0
  /** Headers of every reply. */
  headers: Readonly<Record<string, string>> = {}
  readonly #target: number
  readonly #server = createServer(
    (request, response) => void this.#serve(request, response).catch(() => response.destroy()),
  )

  private constructor(port: number, target: number) {
    this.port = port
    this.#target = target
  }

  /** A proxy for one test. */
  static async start(server: DynamodbServer): Promise<DynamodbProxy> {
    const proxy = new DynamodbProxy(await freePort(), server.port)
    await new Promise<void>((resolve) => proxy.#server.listen(proxy.port, '127.0.0.1', resolve))
    onTestFinished(() => proxy.stop())
    return proxy
  }

  /** How often a command was sent. */
  count(command: string): number {
    return this.requests.filter((request) => request.command === command).length
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await textOf(request)
    const command = String(request.headers['x-amz-target']).split('.').at(-1) ?? ''
    const received = { command, input: JSON.parse(body) as Readonly<Record<string, unknown>> }
    this.requests.push(received)
    const fault = await this.fault(received)
    if (fault === 'silence') return
    if (typeof fault === 'object') {
      const { error, message = 'as AWS says it', status = 400 } = fault
      const text = JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${error}`, message })
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0', ...this.headers }).end(text)
      return
    }
    this.underWay += 1
    const reply = await this.#passedOn(request, body).finally(() => (this.underWay -= 1))
    if (fault === 'lose reply') {
      response.destroy()
      return
    }
    const changed = fault === undefined ? reply.text : JSON.stringify(fault(JSON.parse(reply.text)))
    response.writeHead(reply.status, { 'content-type': 'application/x-amz-json-1.0', ...this.headers }).end(changed)
  }

  #passedOn(request: IncomingMessage, body: string): Promise<{ readonly status: number; readonly text: string }> {
    return new Promise((resolve, reject) => {
      const { method = 'POST', headers, url = '/' } = request
      const options = { host: '127.0.0.1', port: this.#target, method, path: url, headers }
      const passed = forward(options, (answer) => {
        textOf(answer).then((text) => resolve({ status: answer.statusCode ?? 500, text }), reject)
      })
      passed.on('error', reject)
      passed.end(body)
    })
  }
}

async function textOf(message: IncomingMessage): Promise<string> {
  message.setEncoding('utf8')
  let text = ''
  for await (const piece of message) text += piece as string
  return text
}
