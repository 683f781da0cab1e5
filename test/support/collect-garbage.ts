import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Collects garbage now. Bun has its own collector; V8 shows its own to those who ask. */
export function collectGarbage(): void {
  const { Bun: bun } = globalThis as { Bun?: { gc(synchronously: boolean): void } }
  if (bun !== undefined) return bun.gc(true)
  setFlagsFromString('--expose-gc')
  ;(runInNewContext('gc') as () => void)()
}
