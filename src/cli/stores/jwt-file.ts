import path from 'node:path'
import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { checkJwt, type JwtOptions } from '../../server/auth/jwt-options.ts'
import { readTrustedFile } from './secret-file.ts'

/**
 * Which JWTs a server takes, from a JSON file. `jwks` may be a URL, or the path of a file with the issuer's keys, seen from that file.
 * Refuses files that others could change: they would decide who gets in.
 */
export function readJwtFile(file: string): JwtOptions {
  const options = parsed(file, 'the JWT settings')
  if (typeof options !== 'object' || options === null) throw invalid(`${file} is not an object of JSON.`)
  const { jwks } = options as { readonly jwks?: unknown }
  const isPath = typeof jwks === 'string' && !/^https?:/i.test(jwks)
  return checkJwt(
    isPath ? { ...options, jwks: parsed(path.resolve(path.dirname(file), jwks), 'the keys of JWTs') } : options,
  )
}

function parsed(file: string, what: string): unknown {
  const text = readTrustedFile(file, what).toString('utf8')
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new LeaseholdError('INVALID', `${file} is not JSON: ${messageOf(error)}`, { cause: error })
  }
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}
