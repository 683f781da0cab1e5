import type { Supports } from './driver.ts'
import { yearMs } from './limits/bounds.ts'

/** What a store that keeps whole claims can do: all of it. A driver names only where it differs. */
export const fullSupport: Supports = {
  shared: true,
  limit: true,
  range: true,
  queue: true,
  push: true,
  priority: true,
  convert: true,
  evict: ['stale', 'lower-priority', 'same-runner', 'all'],
  grace: true,
  maxHold: true,
  fence: true,
  ttlMinMs: 1,
  ttlMaxMs: yearMs,
}
