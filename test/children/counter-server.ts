/** An HTTP server with two numbers in memory, one behind a guard. Says its address and serves until it is killed. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { httpGuard } from '../../src/guards/index.ts'

const values: Record<string, string> = { '/guarded': '0', '/unguarded': '0' }
const guard = httpGuard()

const server = createServer((request, response) => {
  const path = request.url ?? ''
  const handle = async (): Promise<void> => {
    if (request.method === 'PUT') values[path] = await text(request)
    response.end(values[path])
  }
  if (path === '/guarded') guard(request, response, handle)
  else void handle()
})
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
