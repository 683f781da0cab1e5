import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort, type WorkerOptions } from 'node:worker_threads'
import { LeaseholdError } from '../../core/errors.ts'
import { runtime } from '../../core/machine/runtime.ts'
import { isClockShared } from '../../core/machine/machine-clock.ts'
import { clockStart, type ClockStart } from '../../core/time/environment.ts'
import type { HeartbeatThread, WatchedClaim } from '../../core/client/claim-runtime.ts'
import { sift, type Report } from './heartbeats.ts'

export type Order =
  | { readonly type: 'watch'; readonly claim: WatchedClaim }
  | { readonly type: 'unwatch'; readonly id: string }
  | { readonly type: 'close' }
  /** The process exits: close the connection now, and set `WorkerSetup.stopped`. */
  | { readonly type: 'exit' }

export interface WorkerSetup {
  readonly url: string
  readonly clock: ClockStart
  readonly port: MessagePort
  /** Becomes 1 when the thread has closed its connection because the process exits. */
  readonly stopped: Int32Array
}

/** Resolves when the thread is connected. */
async function startWorker(options: WorkerOptions): Promise<Worker> {
  const worker = new Worker(new URL('./heartbeat-worker.js', import.meta.url), options)
  await new Promise<void>((resolve, reject) => {
    worker.once('message', () => resolve())
    worker.once('error', reject)
  })
  return worker
}

/** In a bundle the worker's file is not beside this module; in one in CommonJS this module has no URL. */
function isMissingFile(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND' || code === 'ERR_INVALID_URL'
}

function withoutFile(cause: unknown): LeaseholdError {
  const what = 'heartbeatThread starts a thread from a file of Leasehold, which is not beside this bundle'
  return new LeaseholdError('UNSUPPORTED', `${what}. Tell the bundler that leasehold is external.`, { cause })
}

/** For a runtime whose threads have a clock each: the second could not tell when the leases of the first end. */
function withoutClock(): LeaseholdError {
  const what = `heartbeatThread needs the clock of this machine, which ${runtime} does not show`
  const advice = runtime === 'Deno' ? 'Run on Linux with --allow-ffi.' : 'Run on Linux, or with Node.'
  return new LeaseholdError('UNSUPPORTED', `${what}. ${advice}`)
}

/** Starts a thread that renews held claims over a connection of its own, however long this thread is blocked. */
export async function startHeartbeatThread(url: string, report: (report: Report) => void): Promise<HeartbeatThread> {
  if (!isClockShared) throw withoutClock()
  const { port1: port, port2 } = new MessageChannel()
  const stopped = new Int32Array(new SharedArrayBuffer(4))
  const workerData: WorkerSetup = { url, clock: clockStart(), port: port2, stopped }
  const worker = await startWorker({ workerData, transferList: [port2] }).catch((error: unknown) => {
    port.close()
    throw isMissingFile(error) ? withoutFile(error) : error
  })
  // The thread lives as long as the client and not a moment longer than the process wants to.
  worker.unref()
  const drain = (first?: Report): void => {
    const reports = first === undefined ? [] : [first]
    for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
      reports.push(next.message as Report)
    }
    for (const each of sift(reports)) report(each)
  }
  port.on('message', drain)
  port.unref()
  let running = true
  const ended = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      running = false
      resolve()
    })
  })
  // Renewals then come from this thread again: a claim not renewed for half its ttl is renewed from here.
  worker.on('error', () => {})
  const order = (message: Order): void => {
    if (running) port.postMessage(message)
  }
  const dispose = onExit({
    order: () => order({ type: 'exit' }),
    wait: (timeoutMs) => void (running && Atomics.wait(stopped, 0, 0, timeoutMs)),
  })
  return {
    watch: (claim) => order({ type: 'watch', claim }),
    unwatch: (id) => order({ type: 'unwatch', id }),
    drain,
    async close() {
      worker.ref()
      order({ type: 'close' })
      await ended
      dispose()
      port.close()
    },
  }
}

/** A thread that must be out of its store before the process ends it. */
interface ExitingThread {
  /** Asks the thread to close its connection. */
  order(): void
  /** Blocks until the thread has done so, or the time is over. */
  wait(timeoutMs: number): void
}

/** The longest that an exit waits for all threads. Closing a connection takes far less, unless a store hangs. */
const exitWaitMs = 1000

const threads = new Set<ExitingThread>()

/**
 * Gives a thread notice before this process, or the worker this runs in, exits. Node ends a thread wherever it is, and a
 * native module that is just then in the middle of a call may abort the process: `@photostructure/sqlite` does. Dispose
 * once the thread has ended.
 */
export function onExit(thread: ExitingThread): () => void {
  if (threads.size === 0) process.on('exit', stopThreads)
  threads.add(thread)
  return () => {
    threads.delete(thread)
    if (threads.size === 0) process.off('exit', stopThreads)
  }
}

function stopThreads(): void {
  const deadline = performance.now() + exitWaitMs
  for (const thread of threads) thread.order()
  for (const thread of threads) thread.wait(Math.max(0, deadline - performance.now()))
}
