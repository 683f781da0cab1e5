import { LeaseholdError } from '../../core/errors.ts'
import { checkTokens, type TokenOptions } from '../../server/auth/tokens.ts'
import { readSecretFile } from './secret-file.ts'

/** The tokens of a JSON file, which only its owner may read. */
export function readTokensFile(file: string): readonly TokenOptions[] {
  return checkTokens(parsed(readSecretFile(file, 'the tokens').toString('utf8'), file))
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
