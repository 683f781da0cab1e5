/** The heartbeat thread: see `heartbeat-thread.ts`. */
import { parentPort, workerData } from 'node:worker_threads'
import type { ClaimStatus } from '../../core/contract/driver.ts'
import { systemEnvironment } from '../../core/time/environment.ts'
import { messageOf } from '../../core/errors.ts'
import { driverFor } from '../stores/connect-driver.ts'
import type { ThreadCommand, WorkerSetup } from './heartbeat-thread.ts'
import { Heartbeats } from './heartbeats.ts'

const { url, clock, port, stopped } = workerData as WorkerSetup
// A rejection reaches the thread that started this one as an error of the worker.
void start()

async function start(): Promise<void> {
  const driver = await driverFor(url)
  await driver.open()
  const heartbeats = new Heartbeats(driver, systemEnvironment(clock), (report) => {
    port.postMessage('settledMs' in report ? report : { ...report, status: sendable(report.status) })
  })
  port.on('message', (command: ThreadCommand) => {
    if (command.type === 'watch') heartbeats.watch(command.claim)
    else if (command.type === 'unwatch') heartbeats.unwatch(command.id)
    else if (command.type === 'close') void heartbeats.close().then(() => port.close())
    else void heartbeats.abandon().finally(reportStopped)
  })
  parentPort?.postMessage('ready')
}

function reportStopped(): void {
  Atomics.store(stopped, 0, 1)
  Atomics.notify(stopped, 0)
}

/** Not every error can cross to another thread; its message can. */
function sendable(status: ClaimStatus): ClaimStatus {
  return status.state === 'unknown' ? { state: 'unknown', error: new Error(messageOf(status.error)) } : status
}
