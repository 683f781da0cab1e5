/**
 * Lives through what `test/lifetime/lives.ts` has, a few times each, on one store, and prints what each left behind.
 *
 *   node lifetimes.js URL [threaded] [severed] [collected] [only=TITLE]…
 *
 * A line of JSON for each life: its title, and what was open before and after; at last `heap BYTES BYTES`.
 */
import { readdir } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { lives, severedLives, threadedLives } from '../lifetime/lives.ts'
import { rounds } from '../support/extent.ts'
import { heapBytes, resources, type Resources } from '../lifetime/resources.ts'

const [url = 'memory:', ...parameters] = process.argv.slice(2)
const known = {
  ...lives,
  ...(parameters.includes('threaded') && threadedLives),
  ...(parameters.includes('severed') && severedLives),
}
const only = parameters.filter((parameter) => parameter.startsWith('only=')).map((parameter) => parameter.slice(5))
const wanted = Object.entries(known).filter(([title]) => only.length === 0 || only.includes(title))
/** After a first time, which loads what is loaded once. Lives that are cut off take seconds, and leave much if anything. */
const roundsOf = (title: string): number => (title in severedLives ? 1 : rounds(1, 3))
/** Sockets and threads end a moment after their close was called. */
const settledWithinMs = 500

// Node's own pool of threads is complete from here on.
await Promise.all(Array.from({ length: 16 }, () => readdir('.')))
for (const [title, life] of wanted) {
  const begunAt = performance.now()
  await life(url)
  console.log(`${Math.round(performance.now() - begunAt)} ms: ${title}`)
}

const heapBefore = await heapBytes()
const before = await resting()
for (const [title, life] of wanted) {
  for (let round = 0; round < roundsOf(title); round += 1) await life(url)
  console.log(JSON.stringify({ title, before, after: await settled() }))
}
console.log(`heap ${heapBefore} ${await heapBytes()}`)

/** What is open when nothing has changed for a moment: so that handles about to close do not count as left. */
async function resting(): Promise<Resources> {
  let last = resources()
  for (;;) {
    await pause(100)
    const now = resources()
    if (isDeepStrictEqual(now, last)) return now
    last = now
  }
}

/**
 * What is open once it is what it was before, or when it has had its time. Few looks, each later than the last: many would
 * have garbage collected, and with it what only a finalizer closes.
 */
async function settled(): Promise<Resources> {
  // On Node 20 the binding of SQLite closes what it has open when its statements are collected, and not before.
  if (parameters.includes('collected')) await heapBytes()
  for (let pauseMs = 1; ; pauseMs *= 2) {
    await pause(pauseMs)
    const after = resources()
    if (isDeepStrictEqual(after, before) || pauseMs > settledWithinMs) return after
  }
}
