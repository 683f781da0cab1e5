import type { Duration } from '../../core/time/duration.ts'
import type { Environment } from '../../core/time/environment.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import type { Mirror } from './queue/mirror.ts'
import type { OctokitLike } from './api/octokit.ts'
import type { Published } from './protocol/published-runner.ts'

/** GitHub's own limit. */
const labelLengthMax = 50
const workerLengthMax = 256

/** The options of `github`. */
export interface GithubOptions {
  /**
   * A token that may write issues.
   *
   * @default GITHUB_TOKEN, else what `gh auth token` says
   */
  readonly token?: string | undefined
  /**
   * The API of a GitHub Enterprise Server: `https://github.example.com/api/v3`.
   *
   * @default GITHUB_API_URL, else github.com's
   */
  readonly baseUrl?: string | undefined
  /** An octokit of yours, with the plugins you want. Then `token`, `baseUrl` and `fetch` are not used. */
  readonly octokit?: OctokitLike | undefined
  /**
   * Sends the requests.
   *
   * @default `globalThis.fetch`
   */
  readonly fetch?: typeof globalThis.fetch | undefined
  /**
   * GitHub's reads may lag behind its writes by less than this. Exclusion depends on it. The same for all clients.
   *
   * @default '5s'
   */
  readonly settle?: Duration | undefined
  /**
   * How often waiters poll: the pauses double from `min` to `max`.
   *
   * @default { min: '1s', max: '16s' }
   */
  readonly poll?: { readonly min: Duration; readonly max: Duration } | undefined
  /**
   * The name of this worker in its comments.
   *
   * @default its runner's id, without the pid
   */
  readonly workerId?: string | undefined
  /**
   * The name of this machine or node in comments. `forTask` names another for one acquisition.
   *
   * @default the id of the client
   */
  readonly nodeId?: string | undefined
  /**
   * What else comments publish about the runner. They may be public.
   *
   * @default []
   */
  readonly publish?: readonly Published[] | undefined
  /**
   * Assigns the holder's account to the issue.
   *
   * @default true
   */
  readonly assign?: boolean | undefined
  /**
   * The label of held issues; false: none.
   *
   * @default 'leasehold: held'
   */
  readonly heldLabel?: string | false | undefined
  /**
   * The label of issues that were opened for named locks. The same for all clients.
   *
   * @default 'leasehold'
   */
  readonly lockLabel?: string | undefined
  /**
   * Accounts whose comments count without checking that they may write, such as `my-app[bot]`.
   *
   * @default []
   */
  readonly trusted?: readonly string[] | undefined
  /** A cache that the driver keeps up to date with the claims this process holds, for `status`. */
  readonly mirror?: Mirror | undefined
  /** Time, timers and randomness, for simulators and tests. */
  readonly environment?: Environment | undefined
}

const githubNames: OptionNames<GithubOptions> = {
  token: true,
  baseUrl: true,
  octokit: true,
  fetch: true,
  settle: true,
  poll: true,
  workerId: true,
  nodeId: true,
  publish: true,
  assign: true,
  heldLabel: true,
  lockLabel: true,
  trusted: true,
  mirror: true,
  environment: true,
}
const pollNames: OptionNames<NonNullable<GithubOptions['poll']>> = { min: true, max: true }

/** Throws INVALID if an option is unknown, or a name cannot be used. @internal */
export function checkGithubOptions(options: GithubOptions): void {
  checkOptions(options, githubNames, 'github')
  checkOptions(options.poll, pollNames, 'poll')
  checkNames(options)
}

/** Throws INVALID if GitHub could not store or find a name. */
function checkNames({ workerId, nodeId, lockLabel, heldLabel }: GithubOptions): void {
  for (const [option, name] of Object.entries({ workerId, nodeId })) {
    if (name === undefined || (name !== '' && name.length <= workerLengthMax)) continue
    throw new LeaseholdError('INVALID', `${option} has ${name.length} characters; 1 to ${workerLengthMax} are allowed.`)
  }
  for (const label of [lockLabel, heldLabel]) {
    if (label === undefined || label === false) continue
    // GitHub takes labels as a list separated by commas.
    if (label !== '' && label.length <= labelLengthMax && !label.includes(',')) continue
    const rule = `Use 1 to ${labelLengthMax} characters and no comma.`
    throw new LeaseholdError('INVALID', `${JSON.stringify(label)} is not a label. ${rule}`)
  }
}
