import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { describeRunner } from '../../src/core/runner.ts'
import { processWatch } from '../../src/core/machine/process-watch.ts'
import { takeRunnerName, type ProcessWatch } from '../../src/core/machine/runner-name.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'

describe('a runner', () => {
  test('is named after its time, chance and process, afresh each time', () => {
    const environment = systemEnvironment()
    const one = describeRunner(environment, undefined, { task: 'x' })
    const other = describeRunner(environment, undefined, undefined)
    expect(one.id).toMatch(new RegExp(`^runner_\\d{13}_[0-9a-f]{8}_${process.pid}$`))
    expect(one.id).not.toBe(other.id)
    expect(one).toMatchObject({ host: hostname(), pid: process.pid })
    expect(one.metadata).toMatchObject({ pid: process.pid, platform: process.platform, task: 'x' })
    expect(one.metadata?.['timestamp']).toMatch(/^\d{4}-\d\d-\d\dT/)
  })

  test('with a kept id still tells its incarnations apart', () => {
    const environment = systemEnvironment()
    const [one, other] = [describeRunner(environment, 'kept', {}), describeRunner(environment, 'kept', {})]
    expect([one.id, other.id]).toEqual(['kept', 'kept'])
    expect(one.incarnation).not.toBe(other.incarnation)
  })

  test('cannot say what is no JSON, or too much', () => {
    const environment = systemEnvironment()
    const circle: Record<string, unknown> = {}
    circle['self'] = circle
    const deep = JSON.parse('{"a":'.repeat(65) + '1' + '}'.repeat(65)) as Record<string, unknown>
    for (const metadata of [circle, { text: 'x'.repeat(9000) }, deep, [] as never]) {
      expect(() => describeRunner(environment, undefined, metadata)).toThrow(
        expect.objectContaining({ code: 'INVALID' }),
      )
    }
  })
})

describe('a runner name', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'leasehold-names-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  /** A process as others see it. */
  const processes = (...alive: string[]) => {
    const living = new Set(alive)
    const as = (self: string): ProcessWatch => ({ self, isGone: (other) => !living.has(other) })
    return { living, as }
  }
  let ids = 0
  const newId = () => `runner-${(ids += 1)}`

  test('keeps its id for the next process of that name', () => {
    const { living, as } = processes('first', 'second')
    const first = takeRunnerName(folder, 'worker', as('first'), newId)
    living.delete('first')
    expect(takeRunnerName(folder, 'worker', as('second'), newId).id).toBe(first.id)
    expect(takeRunnerName(folder, 'another', as('second'), newId).id).not.toBe(first.id)
    expect(readdirSync(folder).toSorted()).toEqual(['another.1', 'worker.2'])
  })

  test('is refused to a second live process, with what to do', () => {
    const { as } = processes('first', 'second')
    takeRunnerName(folder, 'worker', as('first'), newId)
    expect(() => takeRunnerName(folder, 'worker', as('second'), newId)).toThrow(/HELD: .*in use.*delete .*worker\.1/)
  })

  test('says who has it as people do', () => {
    const { as } = processes('first', 'second')
    takeRunnerName(folder, 'worker', { ...as('first'), label: 'process 42 on alpha' }, newId)
    expect(() => takeRunnerName(folder, 'worker', as('second'), newId)).toThrow('in use by process 42 on alpha. If')
    expect(processWatch().label).toBe(`process ${process.pid} on ${hostname()}`)
  })

  test('is free again once it was released', () => {
    const { as } = processes('first', 'second')
    const first = takeRunnerName(folder, 'worker', as('first'), newId)
    first.release()
    const second = takeRunnerName(folder, 'worker', as('second'), newId)
    expect(second.id).toBe(first.id)
    first.release()
    expect(() => takeRunnerName(folder, 'worker', as('third'), newId)).toThrow(/in use/)
  })

  test('goes to one of two that find its holder dead, whoever is slower', () => {
    const { living, as } = processes('first', 'second', 'third')
    takeRunnerName(folder, 'worker', as('first'), newId)
    living.delete('first')
    // The second looks, sees a dead holder, and before it can act the third has taken the name.
    let taken = false
    const slow: ProcessWatch = {
      self: 'second',
      isGone(other) {
        if (!taken) {
          taken = true
          takeRunnerName(folder, 'worker', as('third'), newId)
        }
        return !living.has(other)
      },
    }
    expect(() => takeRunnerName(folder, 'worker', slow, newId)).toThrow(/in use by the process third/)
  })

  test('does not go to one so slow that two others have come and gone', () => {
    const { living, as } = processes('first', 'second', 'third', 'fourth')
    takeRunnerName(folder, 'worker', as('first'), newId)
    living.delete('first')
    let looked = false
    const slow: ProcessWatch = {
      self: 'second',
      isGone(other) {
        if (!looked) {
          looked = true
          takeRunnerName(folder, 'worker', as('third'), newId)
          living.delete('third')
          takeRunnerName(folder, 'worker', as('fourth'), newId)
        }
        return !living.has(other)
      },
    }
    expect(() => takeRunnerName(folder, 'worker', slow, newId)).toThrow(/in use by the process fourth/)
    expect(readdirSync(folder)).toEqual(['worker.3'])
  })

  test('cannot be a path, and a damaged file is not guessed at', () => {
    const { as } = processes('first')
    for (const name of ['', '../x', 'a/b', '.hidden']) {
      expect(() => takeRunnerName(folder, name, as('first'), newId)).toThrow(
        expect.objectContaining({ code: 'INVALID' }),
      )
    }
    writeFileSync(join(folder, 'worker.1'), '{"id":')
    expect(() => takeRunnerName(folder, 'worker', as('first'), newId)).toThrow(/does not say who/)
  })
})
