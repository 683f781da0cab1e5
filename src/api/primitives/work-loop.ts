import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import type { SlotMember } from '../../core/client/slot-set.ts'
import { LeaseholdError, messageOf, unsupported } from '../../core/errors.ts'
import { pauseMs, type Backoff } from '../../core/time/backoff.ts'
import { settledWithin } from '../../core/time/bounded.ts'
import { durationMs, positiveMs } from '../../core/time/duration.ts'
import { listenForAbort, stopListeningForAbort } from '../client/abort-listeners.ts'
import type { Acquirer } from '../client/acquirer.ts'
import { callForeign } from '../client/events.ts'
import { asOwner } from '../owners/current-owner.ts'
import { claimTask, type CompleteOptions, type Task, type TaskOptions } from './task.ts'
import type { JobHandler, WorkLoop, WorkOptions, WorkPause } from './work.ts'

const workNames: OptionNames<WorkOptions<unknown>> = {
  source: true,
  idOf: true,
  concurrency: true,
  pause: true,
  signal: true,
  stopWithin: true,
  onError: true,
  remember: true,
  ttl: true,
  lease: true,
  heartbeat: true,
  maxHold: true,
  progress: true,
  metadata: true,
}
const pauseNames: OptionNames<WorkPause> = { min: true, max: true }

const concurrencyMax = 1000
/** How many failed tasks are remembered, so as not to try them again at once. */
const failedMax = 10_000

/** After so many items in a row that this loop has, or leaves alone for now, it pauses: a source may never end. */
const skippedMax = 1000

/** A task whose handler threw, or gave it back: when this loop may claim it again. */
interface FailedTask {
  readonly failures: number
  readonly againAt: number
}

/** Claims tasks of a queue as long as it runs, and hands each to a handler. @internal */
export class TaskLoop<Item> implements WorkLoop, SlotMember {
  setSlot = -1
  readonly stopped: Promise<void>
  readonly #acquirer: Acquirer
  readonly #queue: string
  readonly #options: WorkOptions<Item>
  readonly #claimOptions: TaskOptions
  readonly #completeOptions: CompleteOptions
  readonly #handler: JobHandler<Item>
  readonly #concurrency: number
  readonly #backoff: Backoff
  readonly #stopWithinMs: number
  /** Aborted when the loop claims no more. */
  readonly #stopping = new AbortController()
  /** Aborted when it waits no longer for its handlers. */
  readonly #givingUp = new AbortController()
  /** By task id, the handlers that run. */
  readonly #jobs = new Map<string, Promise<void>>()
  readonly #failed = new Map<string, FailedTask>()
  /** Ends the pause under way, or the wait for a free handler. */
  #wake: (() => void) | undefined
  readonly #stop = (): void => void this.stop()

  constructor(acquirer: Acquirer, queue: string, options: WorkOptions<Item>, handler: JobHandler<Item>) {
    checkOptions(options, workNames, 'work')
    if (typeof handler !== 'function') throw invalid('work needs a function that handles a task.')
    if (typeof options?.source !== 'function') throw invalid('work needs a source: a function that finds tasks.')
    const { source, idOf, concurrency = 1, pause, signal, stopWithin = '10s', onError, remember, ...claim } = options
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > concurrencyMax) {
      throw invalid(`concurrency is ${String(concurrency)}. Use a whole number from 1 to ${concurrencyMax}.`)
    }
    const { client } = acquirer
    client.refuseIfClosing()
    if (remember !== 0 && !client.driver.supports.convert) {
      throw unsupported('completed tasks that are remembered: pass remember: 0')
    }
    if (remember !== undefined) durationMs(remember, 'remember')
    // Check the options of claims now, not at the first task.
    acquirer.terms({ ...claim, onConflict: 'wait' })
    this.#acquirer = acquirer
    this.#queue = queue
    this.#options = { source, idOf, signal, onError }
    this.#claimOptions = claim
    this.#completeOptions = { remember }
    this.#handler = handler
    this.#concurrency = concurrency
    this.#backoff = backoffOf(pause)
    this.#stopWithinMs = durationMs(stopWithin, 'stopWithin')
    client.works.add(this)
    if (signal !== undefined) listenForAbort(signal, this.#stop)
    // On behalf of nobody: the loop outlives the body that may have started it.
    this.stopped = asOwner(undefined, () => this.#run())
    if (signal?.aborted === true) this.#stop()
  }

  get running(): number {
    return this.#jobs.size
  }

  stop(): Promise<void> {
    this.#stopping.abort(new LeaseholdError('ABORTED', 'The work loop was stopped.'))
    this.#wake?.()
    return this.stopped
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted
  }

  async #run(): Promise<void> {
    const { environment, works } = this.#acquirer.client
    // Not in this turn: the caller first gets the loop.
    await Promise.resolve()
    const rounds = this.#rounds()
    await Promise.race([rounds, this.#untilStopping()])
    // A source that never answers is left behind: what its round would claim is given back.
    await settledWithin(environment, this.#stopWithinMs, Promise.all([rounds, this.#allJobs()]))
    this.#givingUp.abort(new LeaseholdError('ABORTED', 'The work loop was stopped, and waits no longer.'))
    // The tasks of handlers that are left are given back, whether or not these return.
    await settledWithin(environment, this.#stopWithinMs, this.#allJobs())
    if (this.#options.signal !== undefined) stopListeningForAbort(this.#options.signal, this.#stop)
    works.delete(this)
  }

  #untilStopping(): Promise<void> {
    return new Promise((resolve) => listenForAbort(this.#stopping.signal, resolve))
  }

  async #rounds(): Promise<void> {
    const { environment } = this.#acquirer.client
    let idleRounds = 0
    while (!this.#isStopping) {
      const round = await this.#round()
      idleRounds = round.claimed > 0 ? 0 : idleRounds + 1
      if (idleRounds === 0) continue
      const longMs = Math.max(round.retryAfterMs, pauseMs(this.#backoff, idleRounds, environment.random()))
      await this.#sleep(longMs)
    }
  }

  async #allJobs(): Promise<void> {
    await Promise.all(this.#jobs.values())
  }

  /** Goes through the source once. Never rejects: what fails is reported, and ends the round. */
  async #round(): Promise<{ readonly claimed: number; readonly retryAfterMs: number }> {
    let claimed = 0
    let skipped = 0
    let current: Item | undefined
    try {
      if (!(await this.#freeHandler())) return { claimed, retryAfterMs: 0 }
      const free = this.#concurrency - this.running
      const items = await this.#options.source({ free, signal: this.#stopping.signal })
      for await (const item of items) {
        if (this.#isStopping) break
        current = item
        const id = this.#idOf(item)
        if (this.#jobs.has(id) || this.#isResting(id)) {
          skipped += 1
          if (skipped % skippedMax === 0) await this.#sleep(this.#backoff.minMs)
          continue
        }
        skipped = 0
        const task = await claimTask(this.#acquirer, this.#queue, id, this.#claimOptions)
        if (task.state !== 'claimed') continue
        if (this.#isStopping) {
          await task.release()
          break
        }
        claimed += 1
        this.#begin(id, item, task)
        // Wait here, not before the claim: a task that was claimed is begun at once.
        if (!(await this.#freeHandler())) break
      }
      return { claimed, retryAfterMs: 0 }
    } catch (error) {
      this.#report(error, current)
      const retryAfterMs = error instanceof LeaseholdError ? (error.retryAfterMs ?? 0) : 0
      return { claimed: 0, retryAfterMs }
    }
  }

  /** Resolves once another handler may begin. False: the loop stops first. */
  async #freeHandler(): Promise<boolean> {
    while (this.running >= this.#concurrency && !this.#isStopping) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    return !this.#isStopping
  }

  #begin(id: string, item: Item, task: Task): void {
    const job = this.#handle(id, item, task).finally(() => {
      this.#jobs.delete(id)
      this.#wake?.()
    })
    this.#jobs.set(id, job)
  }

  /** Runs one handler, and completes its task or gives it back. Never rejects. */
  async #handle(id: string, item: Item, task: Task): Promise<void> {
    const { signal, [Symbol.dispose]: detach } = eitherSignal(task.signal, this.#givingUp.signal)
    try {
      const handled = (async () => this.#handler({ item, task, fence: task.fence, signal }))()
      await Promise.race([handled, givenUp(this.#givingUp.signal, handled)])
      if (task.lease.loss !== undefined) throw task.lease.loss
      if (task.lease.held) {
        await task.complete(this.#completeOptions)
        this.#failed.delete(id)
      } else {
        // A task that its handler gave back would be claimed again at once, and again.
        this.#rest(id, 1)
      }
    } catch (error) {
      this.#noteFailure(id)
      this.#report(error, item)
      await task.release().catch((fault: unknown) => this.#report(fault, item))
    } finally {
      detach()
    }
  }

  #noteFailure(id: string): void {
    this.#rest(id, (this.#failed.get(id)?.failures ?? 0) + 1)
  }

  /** Leaves a task alone for the pause after so many failures. */
  #rest(id: string, failures: number): void {
    const { environment } = this.#acquirer.client
    const againAt = environment.now() + pauseMs(this.#backoff, failures, environment.random())
    // Deleted first, so that the oldest entry is the first.
    this.#failed.delete(id)
    this.#failed.set(id, { failures, againAt })
    if (this.#failed.size <= failedMax) return
    for (const oldest of this.#failed.keys()) return void this.#failed.delete(oldest)
  }

  #isResting(id: string): boolean {
    return this.#acquirer.client.environment.now() < (this.#failed.get(id)?.againAt ?? -Infinity)
  }

  #idOf(item: Item): string {
    const { idOf } = this.#options
    const id: unknown = idOf === undefined ? idIn(item) : idOf(item)
    if (typeof id === 'string' && id !== '') return id
    throw invalid('A task of the source has no id. Give text, objects with an id as text, or idOf.')
  }

  #report(error: unknown, item: Item | undefined): void {
    const { client } = this.#acquirer
    const { onError } = this.#options
    const which = `A worker of queue ${JSON.stringify(this.#queue)}`
    if (onError === undefined) client.warn(`${which} failed: ${messageOf(error)}`)
    else {
      callForeign(
        () => onError(error, item),
        (fault) => client.warn(`${which}: onError threw: ${messageOf(fault)}`),
      )
    }
  }

  #sleep(milliseconds: number): Promise<void> {
    if (this.#isStopping) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = this.#acquirer.client.environment.timer(milliseconds, () => this.#wake?.())
      // A worker that looks for tasks keeps its process alive.
      timer.keepAlive(true)
      const wake = (): void => {
        timer.cancel()
        this.#wake = undefined
        resolve()
      }
      this.#wake = wake
    })
  }
}

/**
 * A signal that aborts when either does, until it is disposed of. Not `AbortSignal.any`: Node 20 keeps each such signal that is listened
 * to for as long as the longest-lived of its sources, here the loop.
 */
function eitherSignal(first: AbortSignal, second: AbortSignal): Disposable & { readonly signal: AbortSignal } {
  const either = new AbortController()
  const sources = [first, second].map((source) => ({ source, abort: () => either.abort(source.reason) }))
  for (const { source, abort } of sources) {
    if (source.aborted) abort()
    else listenForAbort(source, abort)
  }
  return {
    signal: either.signal,
    [Symbol.dispose]() {
      for (const { source, abort } of sources) stopListeningForAbort(source, abort)
    },
  }
}

/** Rejects when the signal fires, unless the handler settles first. */
function givenUp(signal: AbortSignal, handled: Promise<unknown>): Promise<never> {
  return new Promise((_resolve, reject) => {
    const giveUp = (): void => reject(signal.reason as Error)
    listenForAbort(signal, giveUp)
    const settled = (): void => stopListeningForAbort(signal, giveUp)
    handled.then(settled, settled)
  })
}

function idIn(item: unknown): unknown {
  return typeof item === 'object' && item !== null ? (item as { readonly id?: unknown }).id : item
}

function backoffOf(pause: WorkPause | undefined): Backoff {
  checkOptions(pause, pauseNames, 'pause')
  const minMs = positiveMs(pause?.min ?? 100, 'pause.min')
  const maxMs = pause?.max === undefined ? Math.max(minMs, 10_000) : positiveMs(pause.max, 'pause.max')
  if (minMs > maxMs) throw invalid(`pause.min is ${minMs} ms, more than pause.max, ${maxMs} ms.`)
  return { attempts: Infinity, minMs, maxMs, factor: 2, jitter: 0.2 }
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}
