import { describe, expect, test } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import { serve } from '../../src/server/index.ts'
import { startServer } from '../support/started-server.ts'

const allowed = 'https://app.example'

function asked(url: string, origin: string, method = 'OPTIONS'): Promise<Response> {
  return fetch(`${url}/v1/requests`, {
    method,
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
  })
}

describe('a page of another origin', () => {
  test('is told what it may send, if its origin is allowed', async () => {
    const { url } = await startServer({ corsOrigins: [allowed] })
    const reply = await asked(url, allowed)
    expect(reply.status).toBe(204)
    expect(reply.headers.get('access-control-allow-origin')).toBe(allowed)
    expect(reply.headers.get('access-control-allow-headers')).toMatch(/authorization, content-type/)
    expect(reply.headers.get('access-control-allow-credentials')).toBeNull()
  })

  test.each(['https://other.example', 'null', `${allowed}.evil.example`, allowed.toUpperCase()])(
    'is told nothing if it is %s, and caches are told that answers differ',
    async (origin) => {
      const { url } = await startServer({ corsOrigins: [allowed] })
      const reply = await asked(url, origin)
      expect(reply.status).toBe(405)
      expect(reply.headers.get('access-control-allow-origin')).toBeNull()
      expect(reply.headers.get('vary')).toBe('origin')
    },
  )

  test('is told nothing by a server that allows none, as before', async () => {
    const { url } = await startServer()
    const reply = await asked(url, allowed)
    expect(reply.status).toBe(405)
    expect(reply.headers.get('access-control-allow-origin')).toBeNull()
    expect(reply.headers.get('vary')).toBeNull()
  })

  test('may read refusals too', async () => {
    const tokens = [{ name: 'a', token: 'a-token-0123456789', namespaces: '*' as const, rights: ['lock' as const] }]
    const { url } = await startServer({ corsOrigins: [allowed], tokens })
    const reply = await fetch(`${url}/v1/store`, { headers: { origin: allowed } })
    expect(reply.status).toBe(401)
    expect(reply.headers.get('access-control-allow-origin')).toBe(allowed)
  })
})

test.each(['*', 'app.example', 'https://app.example/', 'https://APP.example', 'file:///tmp', ''])(
  '%j is no origin, and no server starts with it',
  async (origin) => {
    const served = serve({ driver: memory(), port: 0, corsOrigins: [origin] })
    await expect(served).rejects.toMatchObject({ code: 'INVALID', message: expect.stringMatching(/no origin/) })
  },
)

test('origins that are no list are refused', async () => {
  const corsOrigins = allowed as unknown as string[]
  const served = serve({ driver: memory(), port: 0, corsOrigins })
  await expect(served).rejects.toMatchObject({ code: 'INVALID', message: expect.stringMatching(/is a list/) })
})
