import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { unavailable } from './faults.ts'

const ghWithinMs = 10_000

/** The token: as given, else GITHUB_TOKEN, else the one GitHub's own command line has. */
export async function findToken(given: string | undefined): Promise<string> {
  const token = given ?? (process.env['GITHUB_TOKEN'] || (await tokenOfCommandLine()))
  if (token !== undefined && token !== '') return token
  throw unavailable(
    'The github driver needs a token that may write issues. Pass `token`, set GITHUB_TOKEN, or run: gh auth login',
    'auth',
  )
}

async function tokenOfCommandLine(): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('gh', ['auth', 'token'], { timeout: ghWithinMs })
    return stdout.trim()
  } catch {
    // Not installed, or nobody is logged in.
    return undefined
  }
}
