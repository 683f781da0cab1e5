import { readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { checkJwt, type JwtOptions } from '../../server/auth/jwt-options.ts'

/**
 * Which JWTs a server takes, from a JSON file. `jwks` may be a URL, or the path of a file with the issuer's keys, seen from that file.
 * Refuses files that others could change: they would decide who gets in.
 */
export function readJwtFile(file: string): JwtOptions {
  const options = parsed(file)
  if (typeof options !== 'object' || options === null) throw invalid(`${file} is not an object of JSON.`)
  const { jwks } = options as { readonly jwks?: unknown }
  const isPath = typeof jwks === 'string' && !/^https?:/i.test(jwks)
  return checkJwt(isPath ? { ...options, jwks: parsed(path.resolve(path.dirname(file), jwks)) } : options)
}

function parsed(file: string): unknown {
  let text: string
  try {
    const { mode, uid } = statSync(file)
    const user = process.geteuid?.()
    if (user !== undefined && uid !== user && uid !== 0) throw invalid(`${file} belongs to another user.`)
    if (process.platform !== 'win32' && (mode & 0o022) !== 0) {
      throw invalid(`Others can change ${file}. Run: chmod go-w ${file}`)
    }
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof LeaseholdError) throw error
    throw new LeaseholdError('INVALID', `${file} cannot be read: ${messageOf(error)}`, { cause: error })
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new LeaseholdError('INVALID', `${file} is not JSON: ${messageOf(error)}`, { cause: error })
  }
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}
