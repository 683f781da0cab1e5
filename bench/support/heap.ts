import { setTimeout as pause } from 'node:timers/promises'

/** What is on the heap after a full collection. Needs `--expose-gc`. */
export async function heapBytes(): Promise<number> {
  // Collects twice, a turn apart: objects freed first may release others.
  for (let turn = 0; turn < 2; turn += 1) {
    await pause(1)
    globalThis.gc?.()
  }
  return process.memoryUsage().heapUsed
}
