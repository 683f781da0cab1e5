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
const endMs = 5000

/** Runs the bench. Throws if the bench ended without a result; a missed bar is a result. */
export async function runBench(
  { name, words, limitMs }: PlannedBench,
  stop: AbortSignal,
  file = fileURLToPath(new URL(`../${name}.js`, import.meta.url)),
): Promise<Run> {
  const busyBefore = await busyShare(1000)
  stop.throwIfAborted()
  const loadBefore = loadavg()[0] ?? Number.NaN
  const startedAt = new Date()
  const since = performance.now()
  const secondsSoFar = (): number => Math.round((performance.now() - since) / 1000)

  // A process group of its own: if the bench hangs, its servers and children end with it.
  const child = spawn(process.execPath, [file, ...words], { stdio: ['ignore', 'pipe', 'inherit'], detached: true })
  const progress = setInterval(() => console.log(`    ${secondsSoFar()} s …`), progressEveryMs)
  const endNow = (): void => void endGroup(child)
  stop.addEventListener('abort', endNow)
  let isLate = false
  // A timer, as Node 20 may collect a signal of AbortSignal.any before its time.
  const limit = setTimeout(() => {
    isLate = true
    endNow()
  }, limitMs)
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  try {
    await once(child, 'close')
  } finally {
    clearInterval(progress)
    clearTimeout(limit)
    stop.removeEventListener('abort', endNow)
    // A bench that failed may leave servers behind, which the next bench would feel.
    await endGroup(child)
  }

  stop.throwIfAborted()
  const result = reportIn(output)
  if (result === undefined) {
    const why = isLate ? `not within ${limitMs / 1000} s` : `exit code ${String(child.exitCode ?? child.signalCode)}`
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

/** Asks all processes of the group to end, and kills those that do not. Resolves when none is left. */
async function endGroup({ pid }: ChildProcess): Promise<void> {
  if (pid === undefined) return
  const deadline = performance.now() + endMs
  let isLeft = signalGroup(pid, 'SIGTERM')
  while (isLeft && performance.now() < deadline) {
    await pause(50)
    isLeft = signalGroup(pid, 0)
  }
  if (isLeft) signalGroup(pid, 'SIGKILL')
}

/** Whether anybody was there to get the signal. */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal)
  } catch {
    return false
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
