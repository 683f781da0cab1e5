/**
 * Started by `server`: serves locks over the memory store (`leasehold`), or answers every body with itself (`echo`), in a process
 * of its own. Sends its URL, and ends with its parent.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '../../src/server/index.ts'
import { tokenOf } from '../../test/support/tokens.ts'

export type ServerKind = 'leasehold' | 'echo'

const kind = process.argv[2] as ServerKind
process.once('disconnect', () => process.exit())
process.send?.(kind === 'echo' ? await startEcho() : await startLeasehold())

/** As an operator would run it: with tokens, each for its own namespace. */
async function startLeasehold(): Promise<string> {
  const server = await serve({
    store: 'memory:',
    port: 0,
    tokens: [{ name: 'bench', token: tokenOf('bench'), namespaces: ['default'], rights: ['lock', 'read'] }],
  })
  return server.url
}

function startEcho(): Promise<string> {
  const server = createServer({ keepAlive: true, noDelay: true }, (request, response) => echo(request, response))
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
  })
}

function echo(request: IncomingMessage, response: ServerResponse): void {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => void pieces.push(piece))
  request.on('end', () => {
    const body = Buffer.concat(pieces)
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length })
    response.end(body)
  })
}
