// Compiled with the types of the DOM, in a program of its own, by test/unit/types.test.ts. Never run.
import type { WebLock, WebLockManager } from '../../../src/web-locks/interface.ts'

declare const ours: WebLockManager

// It stands in for navigator.locks wherever that is wanted.
export const theirs: LockManager = ours
export const navigatorLike: Pick<Navigator, 'locks'> = { locks: ours }

// What is written for navigator.locks compiles with ours as it is.
async function written(locks: Pick<LockManager, 'request' | 'query'>): Promise<void> {
  const options: LockOptions = { mode: 'shared', ifAvailable: true, signal: new AbortController().signal }
  const name: string | undefined = await locks.request('a', options, async (lock: Lock | null) => lock?.name)
  const { held = [], pending = [] }: LockManagerSnapshot = await locks.query()
  const infos: LockInfo[] = [...held, ...pending]
  console.log(name, infos)
}
export const used = written(ours)

export async function direct(options: LockOptions): Promise<number> {
  const callback: LockGrantedCallback<Promise<string>> = async (lock) => lock?.mode ?? 'none'
  const text: string = await ours.request('a', callback)
  const same: string = await ours.request('a', options, callback)
  const lock: Lock | null = await ours.request('a', (given: WebLock | null) => given)
  // @ts-expect-error -- the result is what the callback gives
  const wrong: number = await ours.request('a', callback)
  // @ts-expect-error -- there are two modes
  await ours.request('a', { mode: 'upgradable' }, callback)
  return wrong + text.length + same.length + (lock === null ? 0 : 1)
}
