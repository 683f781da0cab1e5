import { array, assert, constant, date, jsonValue, oneof, property, record, string } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { claimant, newRunner } from '../../src/api/client/runner.ts'
import { shortRunner, wholeRunner } from '../../src/core/rule/short-runner.ts'

const usual = newRunner(systemEnvironment(), undefined, undefined)

describe('a runner in short', () => {
  test('is the same runner again, whatever it says of itself', () => {
    const said = record(
      {
        pid: oneof(constant(usual.pid), jsonValue()),
        hostname: oneof(constant(usual.host), jsonValue()),
        platform: oneof(constant('linux'), jsonValue()),
        timestamp: oneof(
          date({ noInvalidDate: true }).map((moment) => moment.toISOString()),
          jsonValue(),
        ),
        more: jsonValue(),
      },
      { requiredKeys: [] },
    )
    const runner = record(
      {
        id: string(),
        incarnation: oneof(constant('again'), string()),
        host: constant(usual.host),
        pid: constant(usual.pid),
        client: string(),
        metadata: said,
        owner: string(),
        holds: array(string()),
      },
      { requiredKeys: ['id', 'incarnation', 'host', 'pid', 'client'] },
    )
    assert(
      property(runner, (one) => {
        // What JSON cannot tell apart, such as -0, no store can.
        const plain: unknown = JSON.parse(JSON.stringify(one))
        expect(wholeRunner(JSON.parse(shortRunner(one)))).toEqual(plain)
      }),
    )
  })

  test('with a name, an owner and words of its caller is the same runner again', () => {
    const named = { ...usual, id: 'billing' }
    // A date, but not as we write it.
    const dated = claimant(usual, undefined, { timestamp: '2026-11-16' })
    for (const runner of [usual, named, dated, claimant(named, 'owner', { ticket: 7 })]) {
      expect(wholeRunner(JSON.parse(shortRunner(runner)))).toEqual(runner)
    }
  })

  test('of no use is told as such', () => {
    expect(() => wholeRunner({ id: 'runner' })).toThrow('a claim whose runner is {"id":"runner"}')
  })

  test('takes less than half of the room', () => {
    expect(shortRunner(usual).length).toBeLessThan(JSON.stringify(usual).length / 2)
  })
})
