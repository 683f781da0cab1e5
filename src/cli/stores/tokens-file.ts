import { readFileSync, statSync } from 'node:fs'
import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { checkTokens, type TokenOptions } from '../../server/auth/tokens.ts'

/**
 * The tokens of a JSON file. Refuses a file that others own or can read, as ssh does with keys. A file owned by root may be
 * readable for a group, as PostgreSQL allows for its keys: containers and systemd provide secrets that way.
 */
export function readTokensFile(file: string): readonly TokenOptions[] {
  let text: string
  try {
    const { mode, uid } = statSync(file)
    const user = process.geteuid?.()
    if (user !== undefined && uid !== user && uid !== 0) {
      throw new LeaseholdError('INVALID', `The tokens in ${file} belong to another user, who could add tokens.`)
    }
    const allowed = uid === 0 && user !== 0 ? 0o640 : 0o600
    if (process.platform !== 'win32' && (mode & 0o077 & ~allowed) !== 0) {
      const remedy = `chmod ${allowed.toString(8)} ${file}`
      throw new LeaseholdError('INVALID', `Others can read the tokens in ${file}. Run: ${remedy}`)
    }
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof LeaseholdError) throw error
    throw new LeaseholdError('INVALID', `The tokens cannot be read: ${messageOf(error)}`, { cause: error })
  }
  return checkTokens(parsed(text, file))
}

/** Parses JSON. Drops the error of JSON.parse, which may quote a token. */
function parsed(text: string, file: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new LeaseholdError(
      'INVALID',
      `${file} is not JSON. Write [{ "name": …, "token": …, "namespaces": …, "rights": … }]`,
    )
  }
}
