import { Agent, request } from 'node:http'

/** A bare client of an echo: as little as `node:http` needs to send a body and read the answer. */
export class EchoClient {
  readonly #url: string
  readonly #agent = new Agent({ keepAlive: true, noDelay: true })

  constructor(url: string) {
    this.#url = url
  }

  /** Sends a body, and resolves to the length of what comes back. */
  echo(body: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
      const call = request(this.#url, { method: 'POST', agent: this.#agent, headers }, (response) => {
        const pieces: Buffer[] = []
        response.on('data', (piece: Buffer) => void pieces.push(piece))
        response.once('error', reject)
        response.once('end', () => resolve(Buffer.concat(pieces).toString('utf8').length))
      })
      call.once('error', reject)
      call.end(body)
    })
  }

  close(): void {
    this.#agent.destroy()
  }
}
