import { setTimeout as pause } from 'node:timers/promises'
import { plainMessageOf, worthRetrying } from '../../core/errors.ts'
import type { Locks } from '../../index.ts'
import type { ParsedArguments } from '../arguments.ts'
import type { CommandContext } from '../command.ts'
import { signalExitCode } from '../exit-codes.ts'
import { Interruption } from '../interruption.ts'
import { chooseSharedStore, isUnused, withLocks } from '../stores/store.ts'

/** What to do with what a store shows. */
export interface PollSteps<Seen> {
  readonly read: (locks: Locks) => Promise<Seen>
  readonly show: (seen: Seen) => void | Promise<void>
  /** The store that has answered before does not answer; undefined: it answers again. */
  readonly away: (why: string | undefined) => void
  readonly everyMs: number
  /** Ends the pause before the next read; `stop` ends the polling. */
  readonly wake?: (control: { readonly now: () => void; readonly stop: (exitCode: number) => void }) => void
}

/**
 * Reads the store again and again until a signal comes, and resolves to its exit code. A store that has answered once may go away and
 * come back; one that never answered is an error.
 */
export async function pollStore<Seen>(
  given: ParsedArguments,
  context: CommandContext,
  { read, show, away, everyMs, wake }: PollSteps<Seen>,
): Promise<number> {
  const { url } = chooseSharedStore(given, context.variables)
  const interruption = new Interruption()
  const connect: CommandContext['connect'] = (...where) => interruption.during(context.connect(...where))
  const stopping = new AbortController()
  let exitCode: number | undefined
  let endPause = new AbortController()
  wake?.({
    now: () => endPause.abort(),
    stop: (code) => {
      exitCode ??= code
      stopping.abort()
    },
  })
  const isOver = (): boolean => interruption.by !== undefined || exitCode !== undefined
  const readAgain = retrying(read, interruption, away)
  try {
    while (!isOver()) {
      // The default store has no file before its first use. Once somebody creates the file, open it.
      const wasUnused = isUnused(url)
      await withLocks(given, { ...context, connect }, {}, async (locks) => {
        while (!isOver() && isUnused(url) === wasUnused) {
          const seen = await readAgain(locks)
          if (seen !== undefined) await show(seen)
          endPause = new AbortController()
          const signal = AbortSignal.any([interruption.signal, stopping.signal, endPause.signal])
          if (!isOver()) await pause(everyMs, undefined, { signal }).catch(() => {})
        }
      })
    }
  } catch (error) {
    if (!isOver()) throw error
  } finally {
    interruption[Symbol.dispose]()
  }
  return exitCode ?? signalExitCode(interruption.by ?? 'SIGINT')
}

/** Reads. If a store that has answered before fails, reports it once and resolves to undefined. */
function retrying<Seen>(
  read: (locks: Locks) => Promise<Seen>,
  interruption: Interruption,
  away: PollSteps<Seen>['away'],
): (locks: Locks) => Promise<Seen | undefined> {
  let state: 'new' | 'there' | 'away' = 'new'
  return async (locks) => {
    try {
      const found = await interruption.during(read(locks))
      if (state === 'away') away(undefined)
      state = 'there'
      return found
    } catch (error) {
      if (interruption.by !== undefined || state === 'new' || !worthRetrying(error)) throw error
      if (state === 'there') away(plainMessageOf(error))
      state = 'away'
      return undefined
    }
  }
}
