import type { ParsedArguments } from '../arguments.ts'
import type { CommandContext } from '../command.ts'
import { changed } from './changes.ts'
import { everyLock, type ListedLock, type Selection } from './listing.ts'
import { pollStore } from './store-poll.ts'

/** How often commands that go on read the store. */
export const pollEveryMs = 1000

/** Prints the selected locks, then those that change, until interrupted. */
export function watchListing(
  selection: Selection,
  print: (locks: readonly ListedLock[]) => Promise<void>,
  given: ParsedArguments,
  context: CommandContext,
): Promise<number> {
  let before: ReadonlyMap<string, ListedLock> = new Map()
  return pollStore(given, context, {
    everyMs: pollEveryMs,
    read: async (locks) => {
      const found = new Map<string, ListedLock>()
      for await (const lock of everyLock(locks, selection)) found.set(lock.key, lock)
      return found
    },
    show: async (after) => {
      const shown = changed(before, after)
      before = after
      await print(shown)
    },
    away: (why) => sayAway(why, context),
  })
}

/** Says that the store is away, or there again. */
export function sayAway(why: string | undefined, { messages }: CommandContext): void {
  messages.say(why === undefined ? 'the store answers again' : `${why} Trying again every second.`)
}
