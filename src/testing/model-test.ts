import type { RunDetails } from 'fast-check'
import { loadFirst } from '../core/machine/optional-package.ts'
import { test } from './vitest.ts'
import { termsOf, type Harness } from './bench.ts'
import { scriptOf, type ModelStep } from './model/command.ts'
import { FenceFloor, Player } from './model/player.ts'

/** The options of `modelTest` and `compareWithModel`. */
export interface ModelTestOptions {
  /**
   * Scripts to play.
   *
   * @default 500
   */
  readonly runs?: number | undefined
  /**
   * Commands of the longest script: the default makes about 20,000 commands in all.
   *
   * @default 80
   */
  readonly commandsMax?: number | undefined
  /**
   * Stops beginning new scripts after this long.
   *
   * @default 20_000
   */
  readonly timeLimitMs?: number | undefined
  /**
   * Where chance begins: always the same, so that a suite that passed passes again.
   *
   * @default 1
   */
  readonly seed?: number | undefined
}

/** A script on which the driver and the rule part ways, shrunk to what matters. */
export interface Counterexample {
  readonly script: string
  readonly difference: string
  /** Set the environment variable LEASEHOLD_REPLAY to this to play the script again. */
  readonly replay: string
}

/** How much was played. */
export interface ModelTestResult {
  readonly runs: number
  readonly commands: number
  readonly counterexample: Counterexample | undefined
}

/**
 *  * Registers a test that plays random scripts both on the driver and on the admission rule and compares every answer,
 * list and notification.
 *
 * @example
 * ```ts
 * import { memory } from 'leasehold/memory'
 * import { modelTest, fakeTime } from 'leasehold/testing'
 *
 * modelTest('mine', {
 *   async open() {
 *     const { clock, advance } = fakeTime()
 *     const name = crypto.randomUUID()
 *     return { driver: async () => memory({ name, clock }), advance, close: async () => {} }
 *   },
 * })
 * ```
 */
export function modelTest(name: string, harness: Harness, options: ModelTestOptions = {}): void {
  const timeoutMs = (options.timeLimitMs ?? timeLimitDefaultMs) * 3 + 30_000
  test(`${name} answers as the rule does, whatever it is asked`, { timeout: timeoutMs }, async () => {
    const { counterexample } = await compareWithModel(harness, options)
    if (counterexample === undefined) return
    const { script, difference, replay } = counterexample
    throw new Error(`${difference}\n\n${script}\n\nPlay it again with LEASEHOLD_REPLAY='${replay}'`)
  })
}

const timeLimitDefaultMs = 20_000

/** Plays random scripts and answers with the shortest found on which the driver differs from the rule. */
export async function compareWithModel(harness: Harness, options: ModelTestOptions = {}): Promise<ModelTestResult> {
  const { runs = 500, commandsMax = 80, timeLimitMs = timeLimitDefaultMs } = options
  const terms = termsOf(harness)
  // Loaded here, so that other users of this entry need no fast-check.
  const { module } = await loadFirst('modelTest', [{ name: 'fast-check', fits: ['4'] }])
  const fc = module as typeof import('fast-check')
  const { scripts } = await import('./model/generate.ts')
  const bench = await harness.open()
  let played = 0
  let commands = 0
  const fenceFloor = new FenceFloor()
  try {
    const drivers = [await bench.driver(), await bench.driver()]
    const { supports } = await bench.driver()
    const property = fc.asyncProperty(scripts(supports, commandsMax), async (script) => {
      played += 1
      commands += script.length
      const difference = await new Player(bench, drivers, terms, `script-${played}/named:`, fenceFloor).play(script)
      if (difference !== undefined) throw new Difference(difference)
    })
    const details = await fc.check(property, {
      numRuns: runs,
      interruptAfterTimeLimit: timeLimitMs,
      seed: options.seed ?? 1,
      ...replayed(process.env['LEASEHOLD_REPLAY']),
    })
    return { runs: played, commands, counterexample: details.failed ? notify(details) : undefined }
  } finally {
    await bench.close()
  }
}

class Difference extends Error {}

function notify(details: RunDetails<[ModelStep[]]>): Counterexample | undefined {
  // Interrupted by the time limit before anything was found: not a failure.
  if (details.counterexample === null) return undefined
  const [script] = details.counterexample
  const { errorInstance: error } = details
  return {
    script: scriptOf(script),
    difference: error instanceof Difference ? error.message : String(error instanceof Error ? error.stack : error),
    replay: `${details.seed}/${details.counterexamplePath ?? ''}`,
  }
}

/** `seed/path`, as a failure prints it. */
function replayed(replay: string | undefined): { seed?: number; path?: string; endOnFailure?: boolean } {
  if (replay === undefined || replay === '') return {}
  const [seed = '', path = ''] = replay.split('/')
  return { seed: Number(seed), ...(path !== '' && { path, endOnFailure: true }) }
}
