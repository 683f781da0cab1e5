import { test, type TestOptions } from 'vitest'
import { Child } from '../support/child.ts'
import type { Resources } from './resources.ts'

/** Far above what one small object a life would come to, and far below the buffers of one connection a life. */
const heapGrowthMax = 2_000_000

/** A store on which clients live, and what can be done there. */
export interface LifetimeStore {
  readonly title: string
  /**
   * `threaded`: it can be renewed from a second thread. `severed`: its URL leads to one host and port. `collected`: what it
   * has open is counted once garbage has been collected.
   */
  readonly kinds: readonly ('threaded' | 'severed' | 'collected')[]
  readonly environment?: NodeJS.ProcessEnv
  /** Titles of `lives.ts`; all, if absent. For stores where each step takes a second. */
  readonly only?: readonly string[]
  /** True: its connections belong to somebody else, who closes them later. */
  readonly keepsSockets?: boolean
  url(): Promise<string>
}

interface LeftBehind {
  readonly title: string
  readonly before: Resources
  readonly after: Resources
}

/** Shows for one store that nothing survives `close()`, whatever happened before. */
export function lifetimeTest(store: LifetimeStore, options: TestOptions = {}): void {
  test.concurrent(
    `a client of ${store.title} leaves nothing behind, whatever its life was like`,
    options,
    async ({ expect, onTestFinished }) => {
      const only = (store.only ?? []).map((title) => `only=${title}`)
      const child = new Child('lifetimes', [await store.url(), ...store.kinds, ...only], store.environment)
      onTestFinished(() => child.kill())
      expect(await child.ended(), child.complaints).toBe(0)
      const left = child.lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as LeftBehind)
      expect(left.length).toBeGreaterThan(store.only === undefined ? 10 : 0)
      for (const { title, before, after } of left) {
        const { socket = 0 } = before.descriptors
        const allowed =
          store.keepsSockets === true ? { ...after, descriptors: { ...after.descriptors, socket } } : after
        expect(allowed, title).toEqual(before)
        expect(before.handles, 'timers of the first lives').not.toHaveProperty('Timeout')
      }
      const [heapBefore = Number.NaN, heapAfter = Number.NaN] = (child.lines.at(-1) ?? '')
        .split(' ')
        .slice(1)
        .map(Number)
      expect(heapAfter - heapBefore, 'heap').toBeLessThan(heapGrowthMax)
      expect(child.complaints).toBe('')
    },
  )
}
