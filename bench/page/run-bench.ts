/** Runs one bench in a process of its own, bounded in time. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { PlannedBench } from './plan.ts'
import { reportIn, type Run } from './results.ts'

const progressEveryMs = 15_000
/** How long a bench may take to end when it is asked to. */
const endMs = 10_000

/** Runs the bench. Throws if the bench ended without a result; a missed bar is a result. */
export async function runBench({ name, words, limitMs }: PlannedBench, stop: AbortSignal): Promise<Run> {
  const busyBefore = await busyShare(1000)
  stop.throwIfAborted()
  const loadBefore = loadavg()[0] ?? Number.NaN
  const startedAt = new Date()
  const since = performance.now()
  const secondsSoFar = (): number => Math.round((performance.now() - since) / 1000)

  // A process group of its own: if the bench hangs, its servers and children end with it.
  const file = fileURLToPath(new URL(`../${name}.js`, import.meta.url))
  const child = spawn(process.execPath, [file, ...words], { stdio: ['ignore', 'pipe', 'inherit'], detached: true })
  const progress = setInterval(() => console.log(`    ${secondsSoFar()} s …`), progressEveryMs)
  const limit = AbortSignal.any([stop, AbortSignal.timeout(limitMs)])
  const endNow = (): void => void endGroup(child)
  limit.addEventListener('abort', endNow)
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  try {
    await once(child, 'close')
  } finally {
    clearInterval(progress)
    limit.removeEventListener('abort', endNow)
  }

  stop.throwIfAborted()
  const result = reportIn(output)
  if (result === undefined) {
    const why = limit.aborted
      ? `not within ${limitMs / 1000} s`
      : `exit code ${String(child.exitCode ?? child.signalCode)}`
    throw new Error(`${name} ended without a result (${why}).\n${output.slice(-2000)}`)
  }
  return {
    startedAt: `${startedAt.toISOString().slice(0, 19)}Z`,
    seconds: secondsSoFar(),
    node: process.version,
    cores: availableParallelism(),
    load: [hundredths(loadBefore), hundredths(loadavg()[0] ?? Number.NaN)],
    busyBefore: hundredths(busyBefore),
    result,
  }
}

async function endGroup(child: ChildProcess): Promise<void> {
  const group = -(child.pid ?? 0)
  if (group === 0) return
  signalGroup(group, 'SIGTERM')
  await pause(endMs, undefined, { ref: false })
  signalGroup(group, 'SIGKILL')
}

function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(group, signal)
  } catch {
    // Nobody is left in the group.
  }
}

/** The share of all processors that was in use over the next `forMs`. */
async function busyShare(forMs: number): Promise<number> {
  const before = processorTimes()
  await pause(forMs)
  const after = processorTimes()
  return 1 - (after.idle - before.idle) / (after.all - before.all)
}

function processorTimes(): { readonly idle: number; readonly all: number } {
  const times = cpus().map((cpu) => cpu.times)
  const sum = (figures: readonly number[]): number => figures.reduce((total, figure) => total + figure, 0)
  return { idle: sum(times.map(({ idle }) => idle)), all: sum(times.flatMap((each) => Object.values(each))) }
}

function hundredths(figure: number): number {
  return Math.round(figure * 100) / 100
}
