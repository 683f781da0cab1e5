/** Makes octokit, with its retry and throttling plugins, for whoever does not bring one. */
import { createHash } from 'node:crypto'
import { loadAll } from '../../../core/machine/optional-package.ts'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { unavailable } from './faults.ts'

/** As much of octokit as is used here. */
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

/** What the driver adds to the `request` options of octokit, for the throttling plugin's questions. @internal */
export interface RequestTerms {
  /** How long the request is still worth sending. */
  readonly leftMs: () => number
}

type Constructor = {
  new (options: object): OctokitLike
  plugin(...plugins: unknown[]): Constructor
}

/** More tries would outlast most deadlines: they come after 1 and 4 seconds. */
const retries = 2

/** @internal */
export interface OctokitTerms {
  readonly token: string
  /** Of a GitHub Enterprise Server: `https://github.example.com/api/v3`. */
  readonly baseUrl: string | undefined
  readonly fetch: typeof globalThis.fetch | undefined
}

/** @internal */
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
      // Drivers with one token share what GitHub allows it, and wait for each other.
      id: createHash('sha256')
        .update(`${baseUrl ?? ''} ${token}`)
        .digest('hex')
        .slice(0, 16),
      onRateLimit: isWorthWaiting,
      onSecondaryRateLimit: isWorthWaiting,
    },
  })
}

/** Whether to send a refused request once more, as late as GitHub asks: not if nobody will want its answer by then. */
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
