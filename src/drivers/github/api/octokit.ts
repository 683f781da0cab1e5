/** The default octokit, with its retry and throttling plugins. */
import { createHash } from 'node:crypto'
import { loadAll } from '../../../core/machine/optional-package.ts'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { unavailable } from './faults.ts'

/** The part of octokit that the driver uses. */
export interface OctokitLike {
  request(
    route: string,
    parameters?: Readonly<Record<string, unknown>>,
  ): Promise<{
    readonly status: number
    readonly headers: Readonly<Record<string, unknown>>
    readonly data: unknown
  }>
}

/** What the driver adds to the `request` options, for the callbacks of the throttling plugin. @internal */
export interface RequestTerms {
  /** The time left until the deadline of the request. */
  readonly leftMs: () => number
}

type Constructor = {
  new (options: object): OctokitLike
  plugin(...plugins: unknown[]): Constructor
}

/** Retries come after 1 and 4 seconds: more would outlast most deadlines. */
const retries = 2

/** The options of the default octokit. @internal */
export interface OctokitTerms {
  readonly token: string
  /** The API of a GitHub Enterprise Server: `https://github.example.com/api/v3`. */
  readonly baseUrl: string | undefined
  readonly fetch: typeof globalThis.fetch | undefined
}

/** Makes the default octokit. @internal */
export async function makeOctokit({ token, baseUrl, fetch }: OctokitTerms): Promise<OctokitLike> {
  const Octokit = await load()
  return new Octokit({
    auth: token,
    userAgent: 'leasehold',
    ...(baseUrl !== undefined && { baseUrl }),
    ...(fetch !== undefined && { request: { fetch } }),
    log: { debug() {}, info() {}, warn() {}, error() {} },
    retry: { retries },
    throttle: {
      // Drivers with the same token share its rate limit, so they share one throttle.
      id: createHash('sha256')
        .update(`${baseUrl ?? ''} ${token}`)
        .digest('hex')
        .slice(0, 16),
      onRateLimit: isWorthWaiting,
      onSecondaryRateLimit: isWorthWaiting,
    },
  })
}

/** Whether to retry a rate-limited request once, after the time GitHub asks for: only if that is before its deadline. */
function isWorthWaiting(
  retryAfterSeconds: number,
  options: { readonly request?: { readonly leasehold?: RequestTerms } },
  _octokit: unknown,
  retried: number,
): boolean {
  return retried === 0 && retryAfterSeconds * 1000 < (options.request?.leasehold?.leftMs() ?? 0)
}

async function load(): Promise<Constructor> {
  const [core, retry, throttling] = await loadAll('The github driver', [
    { name: '@octokit/core', fits: ['7'] },
    { name: '@octokit/plugin-retry', fits: ['8'] },
    { name: '@octokit/plugin-throttling', fits: ['11'] },
  ])
  const { Octokit } = core as { readonly Octokit: Constructor }
  return Octokit.plugin((retry as { retry: unknown }).retry, (throttling as { throttling: unknown }).throttling)
}

const ghWithinMs = 10_000

/** The token: as given, else GITHUB_TOKEN, else that of `gh auth token`. */
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
