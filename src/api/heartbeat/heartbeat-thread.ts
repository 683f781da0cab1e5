import { isClockShared } from '../../core/machine/machine-clock.ts'
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort, type WorkerOptions } from 'node:worker_threads'
import { LeaseholdError } from '../../core/errors.ts'
import { runtime } from '../../core/machine/runtime.ts'
import { clockStart, type ClockStart } from '../../core/time/environment.ts'
import type { HeartbeatThread, RenewedClaim } from '../../core/client/claim-runtime.ts'
import { newestReports, type HeartbeatReport } from './heartbeats.ts'

/** What a client asks its heartbeat thread to do. */
export type ThreadCommand =
  | { readonly type: 'watch'; readonly claim: RenewedClaim }
  | { readonly type: 'unwatch'; readonly id: string }
  | { readonly type: 'close' }
  /** The process exits: close the connection now, and set `WorkerSetup.stopped`. */
  | { readonly type: 'exit' }

/** What the worker is started with. */
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

/** In a bundle the worker's file is not beside this module; in a CommonJS bundle this module has no URL. */
function isMissingFile(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND' || code === 'ERR_INVALID_URL'
}

function withoutFile(cause: unknown): LeaseholdError {
  const message = 'heartbeatThread starts a thread from a file of Leasehold, which is not beside this bundle'
  return new LeaseholdError('UNSUPPORTED', `${message}. Tell the bundler that leasehold is external.`, { cause })
}

/** The error for a runtime whose threads have a clock each: the thread could not tell when the client's leases end. */
function withoutClock(): LeaseholdError {
  const message = `heartbeatThread needs the clock of this machine, which ${runtime} does not show`
  const advice = runtime === 'Deno' ? 'Run on Linux with --allow-ffi.' : 'Run on Linux, or with Node.'
  return new LeaseholdError('UNSUPPORTED', `${message}. ${advice}`)
}

/** Starts a thread that renews held claims over a connection of its own, however long this thread is blocked. */
export async function startHeartbeatThread(
  url: string,
  report: (report: HeartbeatReport) => void,
): Promise<HeartbeatThread> {
  if (!isClockShared) throw withoutClock()
  const { port1: port, port2 } = new MessageChannel()
  const stopped = new Int32Array(new SharedArrayBuffer(4))
  const workerData: WorkerSetup = { url, clock: clockStart(), port: port2, stopped }
  const worker = await startWorker({ workerData, transferList: [port2] }).catch((error: unknown) => {
    port.close()
    throw isMissingFile(error) ? withoutFile(error) : error
  })
  // The thread ends with the client, and does not keep the process alive.
  worker.unref()
  const drain = (first?: HeartbeatReport): void => {
    const reports = first === undefined ? [] : [first]
    for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
      reports.push(next.message as HeartbeatReport)
    }
    for (const next of newestReports(reports)) report(next)
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
  // Without the other thread, this one renews every claim that was not renewed for half its ttl.
  worker.on('error', () => {})
  const send = (command: ThreadCommand): void => {
    if (running) port.postMessage(command)
  }
  const dispose = onExit({
    stop: () => send({ type: 'exit' }),
    wait: (timeoutMs) => void (running && Atomics.wait(stopped, 0, 0, timeoutMs)),
  })
  return {
    watch: (claim) => send({ type: 'watch', claim }),
    unwatch: (id) => send({ type: 'unwatch', id }),
    drain,
    async close() {
      worker.ref()
      send({ type: 'close' })
      await ended
      dispose()
      port.close()
    },
  }
}

/** A thread that must close its connection before the process ends it. */
interface ExitingThread {
  /** Asks the thread to close its connection. */
  stop(): void
  /** Blocks until the connection is closed, or the time is over. */
  wait(timeoutMs: number): void
}

/** The longest that an exit waits for all threads. Closing a connection takes far less, unless a store hangs. */
const exitWaitMs = 1000

const threads = new Set<ExitingThread>()

/**
 * Stops a thread before this process, or the worker this runs in, exits. Node ends a thread in the middle of a call, and a
 * native module may then abort the process: `@photostructure/sqlite` does. Call the result once the thread has ended.
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
  for (const thread of threads) thread.stop()
  for (const thread of threads) thread.wait(Math.max(0, deadline - performance.now()))
}
