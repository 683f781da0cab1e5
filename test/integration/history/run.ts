import { spawn, type ChildProcess } from 'node:child_process'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'
import { checkHistory, historyLog, readHistory, type HistoryEvent } from '../../../src/testing/index.ts'
import { signalTo } from '../../support/signal.ts'
import { makeFolder, removeFolder } from '../../support/scratch-folder.ts'

const program = path.resolve('.build/test/children/history-client.js')

export interface RunOptions {
  readonly trade: string
  readonly clients: number
  readonly runMs: number
  /** How many clients are killed, and how many stopped for longer than their ttl, while the run lasts. */
  readonly kills?: number
  readonly stops?: number
  readonly unlocked?: boolean
  /** The store's URL; absent: a file of the run's own. */
  readonly url?: string
  readonly ttlMs?: number
  /** What happens to the store meanwhile, beginning when a quarter of the run is over. */
  readonly meanwhile?: () => Promise<void>
}

/** Lets clients in processes of their own compete over one store, and gives what they wrote down. */
export async function historyRun(options: RunOptions): Promise<HistoryEvent[]> {
  const folder = makeFolder('history')
  const run = new Run(folder, options)
  try {
    return await run.play()
  } finally {
    run.endAll()
    removeFolder(folder)
  }
}

/**
 * Expects that runs leave a right history, and plays them until enough has happened to show something: on a slow machine
 * one may be over before it has begun.
 */
export async function expectRightHistory(
  options: RunOptions,
  enough: { readonly holds: number; readonly handOvers: number },
  { fair }: { readonly fair: boolean },
): Promise<void> {
  let [holds, handOvers] = [0, 0]
  while (holds < enough.holds || handOvers < enough.handOvers) {
    const { violations, summary } = checkHistory(await historyRun(options), { fair })
    expect(violations).toEqual([])
    expect(summary.clients).toBeGreaterThanOrEqual(options.clients)
    holds += summary.holds
    handOvers += summary.handOvers
  }
}

class Run {
  readonly #folder: string
  readonly #options: RunOptions
  readonly #children = new Map<string, ChildProcess>()
  readonly #logs: string[] = []
  readonly #ends: Promise<unknown>[] = []
  /** Of each client: that it has opened the store, or ended. */
  readonly #opens: Promise<unknown>[] = []
  readonly #complaints: string[] = []
  readonly #killed = new Set<string>()
  readonly #startedAt = performance.now()

  constructor(folder: string, options: RunOptions) {
    this.#folder = folder
    this.#options = options
  }

  async play(): Promise<HistoryEvent[]> {
    const { clients, kills = 0, stops = 0, runMs } = this.#options
    const own = path.join(this.#folder, 'faults.jsonl')
    this.#logs.push(own)
    {
      using faults = historyLog(own)
      for (let index = 0; index < clients; index += 1) this.#start(`client-${index}`)
      await Promise.all(this.#opens)
      await pause(runMs / 4)
      await this.#options.meanwhile?.()
      const every = runMs / 2 / Math.max(1, kills + stops)
      for (let fault = 0; fault < kills + stops; fault += 1) {
        const victim = `client-${fault % clients}`
        // Written down before it happens: later would claim that the dead still held.
        if (fault < kills) {
          faults.write({ type: 'crash', client: victim })
          this.#killed.add(victim)
          this.#children.get(victim)?.kill('SIGKILL')
          this.#start(`client-${clients + fault}`)
        } else {
          faults.write({ type: 'pause', client: victim })
          const child = this.#children.get(victim)
          signalTo(child, 'SIGSTOP')
          setTimeout(() => signalTo(child, 'SIGCONT'), 800)
        }
        await pause(every)
      }
      await Promise.all(this.#ends)
    }
    if (this.#complaints.length > 0) throw new Error(this.#complaints.join('\n'))
    return readHistory(this.#logs)
  }

  endAll(): void {
    for (const child of this.#children.values()) {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    }
  }

  #start(name: string): void {
    const { trade, runMs, unlocked = false, ttlMs = 500 } = this.#options
    const log = path.join(this.#folder, `${name}.jsonl`)
    this.#logs.push(log)
    const leftMs = Math.max(0, runMs - (performance.now() - this.#startedAt))
    const url = this.#options.url ?? `sqlite:${path.join(this.#folder, 'locks.sqlite')}`
    const words = [program, url, log, name, trade, String(leftMs), String(ttlMs), unlocked ? 'unlocked' : 'locked']
    const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'pipe'] })
    this.#children.set(name, child)
    historyLog(log)[Symbol.dispose]()
    let stderr = ''
    child.stderr?.on('data', (data: Buffer) => (stderr += data.toString()))
    this.#opens.push(
      new Promise<void>((resolve) => {
        child.stdout?.once('data', () => resolve())
        child.once('close', () => resolve())
      }),
    )
    this.#ends.push(
      new Promise<void>((resolve) => {
        child.on('close', (code) => {
          if (code !== 0 && !this.#killed.has(name)) this.#complaints.push(`${name} ended with ${code}: ${stderr}`)
          resolve()
        })
      }),
    )
  }
}
