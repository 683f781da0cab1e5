import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { eventScripts, firstComplaint, tell } from './admission/scripts.ts'

describe('the rule', () => {
  test('keeps every promise, whatever it is asked', { timeout: 120_000 }, () => {
    const runs = Number(process.env['LEASEHOLD_RUNS'] ?? 3000)
    const details = fc.check(
      fc.property(eventScripts(60), (events) => {
        const complaint = firstComplaint(events)
        if (complaint !== undefined) throw new Error(complaint)
      }),
      { numRuns: runs },
    )
    if (!details.failed || details.counterexample === null) return
    const [events] = details.counterexample
    expect.fail(`${firstComplaint(events)}\n${tell(events)}\nseed ${details.seed}`)
  })
})
