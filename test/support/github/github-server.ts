import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { freePort } from '../free-port.ts'
import { FakeGithub, type FakeGithubOptions } from './fake-github.ts'
import { listen, closeServer } from '../loopback.ts'

/** Carries out an order that the real GitHub does not know, and returns the answer. */
type Control = (order: string) => unknown

/** The fake behind a real socket, for processes of their own. */
export class GithubServer {
  readonly github: FakeGithub
  readonly url: string
  readonly #server: Server

  private constructor(github: FakeGithub, server: Server, port: number) {
    this.github = github
    this.#server = server
    this.url = `http://127.0.0.1:${port}`
  }

  /** `control` answers orders that are sent to `/control`. */
  static async start(options: FakeGithubOptions = {}, control?: Control): Promise<GithubServer> {
    const github = new FakeGithub(options)
    const server = createServer((request, response) => void answer(github, control, request, response))
    const port = await freePort()
    await listen(server, port)
    return new GithubServer(github, server, port)
  }

  async stop(): Promise<void> {
    await closeServer(this.#server)
  }
}

async function answer(
  github: FakeGithub,
  control: Control | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let body = ''
  for await (const chunk of request.setEncoding('utf8')) body += chunk as string
  if (control !== undefined && request.url === '/control') return void response.end(JSON.stringify(control(body)))
  const answered = github.handle({
    method: request.method ?? 'GET',
    url: request.url ?? '',
    headers: request.headers as Record<string, string>,
    body: body === '' ? undefined : body,
  })
  // No answer: the connection stays open until the client gives up.
  if (answered === undefined) return
  response.writeHead(answered.status, answered.headers)
  response.end(answered.body)
}
