import type { Request } from '../../src/core/contract/driver.ts'

/** A server's response, as it came over the wire. */
export interface Called {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The text parsed as JSON; undefined if it is not JSON. */
  readonly value: unknown
}

/** Calls a server as curl would, with a token or without. */
export async function get(url: string, token?: string, headers: Record<string, string> = {}): Promise<Called> {
  return called(await fetch(url, { headers: { ...headers, ...authorization(token) }, redirect: 'manual' }))
}

/** Posts text, as JSON by default. */
export async function post(url: string, body: string, token?: string, type = 'application/json'): Promise<Called> {
  const headers = { 'content-type': type, ...authorization(token) }
  return called(await fetch(url, { method: 'POST', headers, body }))
}

/** Sends requests of the driver contract. */
export async function postRequests(url: string, requests: readonly Request[], token?: string): Promise<Called> {
  return post(`${url}/v1/requests`, JSON.stringify({ requests }), token)
}

function authorization(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` }
}

async function called(response: Response): Promise<Called> {
  const text = await response.text()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined
  }
  return { status: response.status, headers: response.headers, text, value }
}
