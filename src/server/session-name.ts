import type { IncomingHttpHeaders } from 'node:http'
import { sessionHeader } from '../core/wire/wire-protocol.ts'
import type { Grant } from './call.ts'
import { invalid } from './http-error.ts'

const form = /^[A-Za-z0-9_-]{22,64}$/

/** The session of a call, apart for each token; undefined if it names none. */
export function sessionOf(headers: IncomingHttpHeaders, grant: Grant): string | undefined {
  const given = headers[sessionHeader.toLowerCase()]
  if (given === undefined) return undefined
  if (typeof given === 'string' && form.test(given)) return `${grant.name} ${given}`
  throw invalid(`${sessionHeader} must be 22 to 64 letters, digits, '_' or '-': 128 random bits.`)
}
