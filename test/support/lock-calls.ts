import { randomUUID } from 'node:crypto'
import type { Called } from './called.ts'

/** What a call for one lock may have beside its name. */
export interface LockCall {
  /** Parameters, as they stand in the URL. */
  readonly query?: string
  readonly id?: string
  readonly token?: string
  readonly body?: unknown
  readonly signal?: AbortSignal
}

/** A lease as the server answers it. */
export interface AnsweredLease {
  readonly id: string
  readonly fence: number
  readonly ttlMs: number
  readonly expiresInMs: number
  readonly waitedMs: number
}

/** A lock as the server shows it. */
export interface ShownLock {
  readonly held: number
  readonly waiting: number
  readonly holders: readonly { readonly fence: number; readonly sinceMs: number }[]
}

/** Calls one server for locks by name, as curl would: a lock a call. */
export class LockCalls {
  readonly #url: string
  readonly #namespace: string

  constructor(url: string, namespace = 'default') {
    this.#url = url
    this.#namespace = namespace
  }

  /** A secret as a caller would make it. */
  newId(): string {
    return randomUUID()
  }

  put(name: string, call: LockCall = {}): Promise<Called> {
    return this.#call('PUT', encodeURIComponent(name), call)
  }

  renew(name: string, call: LockCall): Promise<Called> {
    return this.#call('POST', `${encodeURIComponent(name)}/renew`, { query: 'ttl=30s', ...call })
  }

  delete(name: string, call: LockCall): Promise<Called> {
    return this.#call('DELETE', encodeURIComponent(name), call)
  }

  get(name: string, call: LockCall = {}): Promise<Called> {
    return this.#call('GET', encodeURIComponent(name), call)
  }

  /** Takes a lock. Throws unless it is granted. */
  async take(name: string, call: LockCall = {}): Promise<AnsweredLease> {
    return leaseIn(await this.put(name, call))
  }

  /** How a lock stands. */
  async look(name: string): Promise<ShownLock> {
    const { status, value, text } = await this.get(name)
    if (status !== 200) throw new Error(text)
    return value as ShownLock
  }

  async #call(method: string, rest: string, { query, id, token, body, signal }: LockCall): Promise<Called> {
    const url = `${this.#url}/v1/locks/${this.#namespace}/${rest}${query === undefined ? '' : `?${query}`}`
    const headers = {
      ...(id !== undefined && { 'leasehold-id': id }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    }
    const response = await fetch(url, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal !== undefined && { signal }),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, value: JSON.parse(text) as unknown }
  }
}

/** The lease of an answer; any other answer is an error. */
export function leaseIn({ status, value, text }: Called): AnsweredLease {
  if (status !== 200) throw new Error(`${status}: ${text}`)
  return value as AnsweredLease
}
