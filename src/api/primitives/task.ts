import { unsupported } from '../../core/errors.ts'
import { durationMs, type Duration } from '../../core/time/duration.ts'
import type { Runner } from '../../core/contract/driver.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { named, type Scope } from '../../core/contract/scope.ts'
import { exclusively } from '../client/acquisition.ts'
import { replaceLease } from '../lease/conversion.ts'
import { inspectLock } from '../operators/inspection.ts'
import type { Lease } from '../lease.ts'
import { LeaseHandle } from '../lease/lease-handle.ts'
import { checkTtl } from '../lease/lease-limits.ts'
import type { AcquireOptions, AcquireTerms } from '../options.ts'
import type { ReleaseResult } from '../lease/release-result.ts'
import { acquireError } from '../client/acquire-error.ts'
import type { Acquirer } from '../client/acquirer.ts'

/** The options of `locks.claim`. */
export type TaskOptions = Pick<AcquireOptions, 'ttl' | 'lease' | 'heartbeat' | 'maxHold' | 'progress' | 'metadata'>

const taskNames: OptionNames<TaskOptions> = {
  ttl: true,
  lease: true,
  heartbeat: true,
  maxHold: true,
  progress: true,
  metadata: true,
}

/** What came of claiming a task. */
export type TaskClaim =
  | Task
  /** Another worker has the task. */
  | { readonly state: 'taken'; readonly by: Runner | undefined }
  /** A worker has completed the task, and the store still remembers that. */
  | { readonly state: 'completed'; readonly by: Runner; readonly at: Date }

/** How long a completed task is remembered by default. */
const rememberMs = 3_600_000
/** Set in the metadata of a claim that marks its task as completed. */
const completedMark = 'completed'

/** A task in hand. It goes back to the queue when its worker releases it, crashes, or stops renewing. */
export interface Task extends AsyncDisposable {
  /** Tells a task in hand from one that is `taken` or `completed`. */
  readonly state: 'claimed'
  /** The queue it was claimed from. */
  readonly queue: string
  /** The task's id in the queue. */
  readonly id: string
  /** The lease on the task. */
  readonly lease: Lease
  /** Pass it with everything the task writes: a worker that was replaced has a lower one. */
  readonly fence: number
  /** Aborts when the task is lost and another worker may have it. */
  readonly signal: AbortSignal
  /** Renews now and says that the work is getting on. Rejects with NOT_HELD once the task is lost. */
  heartbeat(): Promise<void>
  /**
   * Says that the task is done. For as long as `remember` says, whoever claims the task is told `completed`. Rejects with
   * NOT_HELD if the task was lost before: another worker may have it.
   */
  complete(options?: CompleteOptions): Promise<void>
  /** Gives the task back undone. */
  release(): Promise<ReleaseResult>
}

/** The options of `task.complete`. */
export interface CompleteOptions {
  /**
   * How long the store remembers that the task is done; 0: not at all.
   *
   * @default '1h', or the longest ttl of the store if that is less
   */
  readonly remember?: Duration | undefined
}

const completeNames: OptionNames<CompleteOptions> = { remember: true }

/** The task of one lease. @internal */
export class ClaimedTask implements Task {
  readonly state = 'claimed'
  readonly queue: string
  readonly id: string
  readonly lease: LeaseHandle
  readonly #acquirer: Acquirer

  constructor(acquirer: Acquirer, queue: string, id: string, lease: LeaseHandle) {
    this.#acquirer = acquirer
    this.queue = queue
    this.id = id
    this.lease = lease
  }

  get fence(): number {
    return this.lease.fence
  }

  get signal(): AbortSignal {
    return this.lease.signal
  }

  async heartbeat(): Promise<void> {
    this.lease.progress()
    await this.lease.renew()
  }

  async complete(options: CompleteOptions = {}): Promise<void> {
    checkOptions(options, completeNames, 'complete')
    this.lease.refuseUnlessHeld()
    const { supports } = this.#acquirer.client.driver
    const longestMs = Math.min(rememberMs, supports.ttlMaxMs)
    const keepMs = options.remember === undefined ? longestMs : durationMs(options.remember, 'remember')
    if (keepMs === 0) return void (await this.lease.release())
    if (!supports.convert) throw unsupported('completed tasks that are remembered: pass remember: 0')
    checkTtl(keepMs, 0, supports, 'remember')
    // One step, so that the task is at every moment either claimed or completed.
    const terms = markTerms(this.#acquirer, this.lease, keepMs)
    const mark = await replaceLease(this.lease, { sharing: exclusively, terms, waitMs: 0 })
    mark.passOn('handed-off')
  }

  release(): Promise<ReleaseResult> {
    return this.lease.release()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}

/** Claims a task without waiting. @internal */
export async function claimTask(
  acquirer: Acquirer,
  queue: string,
  id: string,
  options?: TaskOptions,
): Promise<TaskClaim> {
  checkOptions(options, taskNames, 'claim')
  const terms = acquirer.terms({ ...options, onConflict: 'wait' })
  const scope = taskScope(queue, id)
  const acquired = await acquirer.attempt({ scope, sharing: exclusively, terms, waitMs: 0 })
  if (acquired instanceof LeaseHandle) return new ClaimedTask(acquirer, queue, id, acquired)
  const { miss, acquisition } = acquired
  if (miss.type !== 'refused' || miss.status.reason !== 'refused') throw await acquireError(acquisition, miss)
  const holder = (await inspectLock(acquirer.client, scope))?.holders.find((claim) => !claim.expired)
  if (holder?.runner.metadata?.[completedMark] !== true) return { state: 'taken', by: holder?.runner }
  return { state: 'completed', by: holder.runner, at: holder.acquiredAt ?? holder.enteredAt }
}

/** The terms of the mark of a completed task: a claim that is not renewed and expires after `keepMs`. */
function markTerms(acquirer: Acquirer, { terms }: LeaseHandle, keepMs: number): Partial<AcquireTerms> {
  const metadata = { ...terms.metadata, [completedMark]: true }
  const { ttlMs, heartbeatMs } = acquirer.terms({ ttl: keepMs, heartbeat: 'manual' })
  return { ttlMs, heartbeatMs, metadata, maxHoldMs: undefined, holdUntil: undefined, graceMs: 0, detached: true }
}

/** Escapes colons in the queue's name: else two queues could share a task. */
function taskScope(queue: string, id: string): Scope {
  return named(`task:${queue.replaceAll('%', '%25').replaceAll(':', '%3A')}:${id}`)
}
