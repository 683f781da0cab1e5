/**
 * A process with numbers in its memory: over HTTP with a middleware before it or not, and in messages whose fence it checks
 * itself or not. Says its address and serves until it is killed.
 */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json, text } from 'node:stream/consumers'
import { httpGuard, memoryGuard } from '../../src/guards/index.ts'
import { LeaseholdError } from '../../src/index.ts'

const values: Record<string, string> = {}
const middleware = httpGuard()
const guard = memoryGuard()

/** What is answered to a message with a value and a fence, or with a fence to raise. */
async function receive(path: string, request: IncomingMessage): Promise<object> {
  const { value, fence } = (await json(request)) as { value?: number; fence: number }
  try {
    if (value === undefined) {
      await guard.raise('the counter', fence)
      return {}
    }
    if (path === '/message/guarded') guard.check('the counter', fence)
    values[path] = String(value)
    return {}
  } catch (error) {
    const { code, reason } = error as LeaseholdError
    return { code, reason }
  }
}

const server = createServer((request, response) => {
  const path = request.url ?? ''
  const handle = async (): Promise<void> => {
    if (request.method === 'POST') return void response.end(JSON.stringify(await receive(path, request)))
    if (request.method === 'PUT') values[path] = await text(request)
    response.end(values[path] ?? '0')
  }
  if (path === '/guarded') middleware(request, response, handle)
  else void handle()
})
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
