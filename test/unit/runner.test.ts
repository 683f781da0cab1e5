import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { newRunner } from '../../src/api/client/runner.ts'
import { bootIdentity, machineIdentity } from '../../src/core/machine/boot.ts'
import { ownProcess, newStamp, stampText, type LivenessStamp, processWatch } from '../../src/core/machine/liveness.ts'
import {
  takeRunnerName,
  type HeldName,
  type NameTiming,
  type ProcessWatch,
} from '../../src/core/machine/runner-name.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { folderForTest } from '../support/test-folder.ts'

describe('a runner', () => {
  test('is named after its time, chance and process, afresh each time', () => {
    const environment = systemEnvironment()
    const one = newRunner(environment, undefined, { task: 'x' })
    const other = newRunner(environment, undefined, undefined)
    expect(one.id).toMatch(new RegExp(`^runner_\\d{13}_[0-9a-f]{8}_${process.pid}$`))
    expect(one.id).not.toBe(other.id)
    expect(one).toMatchObject({ host: hostname(), pid: process.pid })
    expect(one.metadata).toMatchObject({ pid: process.pid, platform: process.platform, task: 'x' })
    expect(one.metadata?.['timestamp']).toMatch(/^\d{4}-\d\d-\d\dT/)
  })

  test('with a kept id still tells its incarnations apart', () => {
    const environment = systemEnvironment()
    const [one, other] = [newRunner(environment, 'kept', {}), newRunner(environment, 'kept', {})]
    expect([one.id, other.id]).toEqual(['kept', 'kept'])
    expect(one.incarnation).not.toBe(other.incarnation)
  })

  test('cannot say what is no JSON, or too much', () => {
    const environment = systemEnvironment()
    const cycle: Record<string, unknown> = {}
    cycle['self'] = cycle
    const deep = JSON.parse('{"a":'.repeat(65) + '1' + '}'.repeat(65)) as Record<string, unknown>
    for (const metadata of [cycle, { text: 'x'.repeat(9000) }, deep, [] as never]) {
      expect(() => newRunner(environment, undefined, metadata)).toThrow(expect.objectContaining({ code: 'INVALID' }))
    }
  })
})

describe('a runner name', () => {
  let folder: string
  beforeEach(() => {
    folder = folderForTest('names')
  })

  test.skipIf(process.platform === 'win32')('is not kept where others can write', async () => {
    chmodSync(folder, 0o777)
    const taking = takeRunnerName(folder, 'worker', processWatch(), () => 'id')
    await expect(taking).rejects.toMatchObject({
      code: 'INVALID',
      message: expect.stringContaining('Other users can write'),
    })
  })

  test.skipIf(process.getuid?.() !== 0)('is not kept in a directory, or behind a link, of another user', async () => {
    const link = join(folder, 'link')
    mkdirSync(join(folder, 'own'), { mode: 0o700 })
    symlinkSync(join(folder, 'own'), link)
    lchownSync(link, 65_534, 65_534)
    mkdirSync(join(folder, 'foreign'), { mode: 0o700 })
    chownSync(join(folder, 'foreign'), 65_534, 65_534)
    for (const name of ['link', 'foreign']) {
      const taking = takeRunnerName(join(folder, name), 'worker', processWatch(), () => 'id')
      await expect(taking).rejects.toMatchObject({ code: 'INVALID' })
    }
    const held = await takeRunnerName(join(folder, 'own'), 'worker', processWatch(), () => 'id')
    held.release()
  })

  /** A process as others see it. */
  const processes = (...alive: string[]) => {
    const living = new Set(alive)
    const as = (self: string, machine = 'm'): ProcessWatch => ({
      self,
      machine,
      judge: (other) => (living.has(other) ? 'running' : 'gone'),
    })
    return { living, as }
  }
  let ids = 0
  const newId = () => `runner-${(ids += 1)}`
  const timing: NameTiming = { renewEveryMs: 50, freeAfterMs: 1500, confirmMs: 500 }
  const held: HeldName[] = []
  afterEach(() => {
    for (const each of held.splice(0)) each.release()
  })
  const take = async (watch: ProcessWatch, name = 'worker') => {
    const taken = await takeRunnerName(folder, name, watch, newId, timing)
    held.push(taken)
    return taken
  }

  test('keeps its id for the next process of that name', async () => {
    const { living, as } = processes('first', 'second')
    const first = await take(as('first'))
    living.delete('first')
    expect((await take(as('second'))).id).toBe(first.id)
    expect((await take(as('second'), 'another')).id).not.toBe(first.id)
    expect(readdirSync(folder).toSorted()).toEqual(['another@m.1', 'worker@m.2'])
  })

  test('is refused to a second live process', async () => {
    const { as } = processes('first', 'second')
    await take(as('first'))
    await expect(take(as('second'))).rejects.toThrow(/HELD: .*in use by the process first\. Wait/)
  })

  test('says who has it as people do', async () => {
    const { as } = processes('first', 'second')
    await take({ ...as('first'), label: 'process 42 on alpha' })
    await expect(take(as('second'))).rejects.toThrow('in use by process 42 on alpha. Wait')
    expect(processWatch().label).toBe(`process ${process.pid} on ${hostname()}`)
  })

  test('is free again once it was released', async () => {
    const { as } = processes('first', 'second')
    const first = await take(as('first'))
    first.release()
    const second = await take(as('second'))
    expect(second.id).toBe(first.id)
    first.release()
    await expect(take(as('third'))).rejects.toThrow(/in use/)
  })

  test('goes to one of two that find its holder dead, whoever is slower', async () => {
    const { living, as } = processes('first', 'second', 'third')
    await take(as('first'))
    living.delete('first')
    // The second looks, sees a dead holder, and before it can act the third has taken the name.
    let taken = false
    const slow: ProcessWatch = {
      ...as('second'),
      judge(other) {
        if (!taken) {
          taken = true
          void take(as('third'))
        }
        return living.has(other) ? 'running' : 'gone'
      },
    }
    await expect(take(slow)).rejects.toThrow(/in use by the process third/)
  })

  test('does not go to one so slow that two others have come and gone', async () => {
    const { living, as } = processes('first', 'second', 'third', 'fourth')
    await take(as('first'))
    living.delete('first')
    let looked = false
    const slow: ProcessWatch = {
      ...as('second'),
      judge(other) {
        if (!looked) {
          looked = true
          void take(as('third'))
          living.delete('third')
          void take(as('fourth'))
        }
        return living.has(other) ? 'running' : 'gone'
      },
    }
    await expect(take(slow)).rejects.toThrow(/in use by the process fourth/)
    expect(readdirSync(folder)).toEqual(['worker@m.3'])
  })

  test('is another one on a machine that has a copy of the directory', async () => {
    const { as } = processes('first')
    const first = await take(as('first'))
    const copy = await take(as('second', 'other'))
    expect(copy.id).not.toBe(first.id)
    first.release()
    expect((await take(as('third'))).id).toBe(first.id)
  })

  test('cannot be a path', async () => {
    const { as } = processes('first')
    for (const name of ['', '../x', 'a/b', '.hidden', 'a@b']) {
      await expect(take(as('first'), name)).rejects.toMatchObject({ code: 'INVALID' })
    }
  })

  describe('of a process that nobody can see', () => {
    const unseen = (self: string): ProcessWatch => ({ self, machine: 'm', judge: () => 'unknown' })

    test('is refused while that renews it', async () => {
      await take(unseen('first'))
      await expect(take(unseen('second'))).rejects.toMatchObject({ code: 'HELD' })
    })

    test('is free once it goes unrenewed, and keeps its id', async () => {
      const first = await take(unseen('first'))
      // The process is killed.
      const entry = readFileSync(join(folder, 'worker@m.1'))
      first.release()
      writeFileSync(join(folder, 'worker@m.1'), entry)
      expect((await take(unseen('second'))).id).toBe(first.id)
    })

    test('is free at the first look if that lets go meanwhile', async () => {
      const first = await take(unseen('first'))
      // Starts to look before the first renewal, and finds nobody at the next look.
      const second = take(unseen('second'))
      first.release()
      expect((await second).id).toBe(first.id)
    })

    test('is not written any more by its old holder once somebody else has it', async () => {
      await take(unseen('first'))
      rmSync(join(folder, 'worker@m.1'))
      await take(unseen('second'))
      expect(readdirSync(folder)).toEqual(['worker@m.1'])
      await pause(timing.renewEveryMs * 4)
      expect(readFileSync(join(folder, 'worker@m.1'), 'utf8')).toContain('"second"')
    })

    test('of which a damaged file is left is free once it goes unrenewed, with another id', async () => {
      writeFileSync(join(folder, 'worker@m.1'), '')
      utimesSync(join(folder, 'worker@m.1'), 1_700_000_000, 1_700_000_000)
      expect((await take(unseen('first'))).id).toBe(`runner-${ids}`)
    })
  })
})

describe('a process', () => {
  const self: LivenessStamp = { boot: 'b2', namespace: '7', pid: process.pid, started: 5, serial: '0123456789abcdef' }
  const watch = processWatch(self, () => 60_000)
  const judge = (changes: Partial<LivenessStamp>, unrenewedMs = 0) =>
    watch.judge(stampText({ ...self, ...changes }), unrenewedMs)

  test('of the boot before ended with it', () => {
    expect(judge({ boot: 'b1' }, 60_001)).toBe('gone')
    expect(judge({ boot: 'b1', pid: 1, namespace: '8' }, 3_600_000)).toBe('gone')
  })

  test('of another boot that has renewed its name since this one began is on another machine', () => {
    expect(judge({ boot: 'b1' }, 59_999)).toBe('unknown')
  })

  test('of another pid namespace cannot be seen', () => {
    expect(judge({ namespace: '8' }, 3_600_000)).toBe('unknown')
    expect(judge({ namespace: '' }, 3_600_000)).toBe('unknown')
    expect(watch.judge('something else', 3_600_000)).toBe('unknown')
  })

  test('of this pid namespace is told by its number and start time', () => {
    expect(judge({})).toBe('running')
    expect(judge({ started: 4 })).toBe('gone')
    const own = newStamp(bootIdentity(), ownProcess())
    expect(processWatch(own).judge(stampText(own), 3_600_000)).toBe('running')
  })
})

test('a machine is told from a copy of it by its host name', () => {
  expect(machineIdentity()).toBe(machineIdentity(process.platform, hostname()))
  expect(machineIdentity(process.platform, 'other')).not.toBe(machineIdentity())
  expect(machineIdentity('win32', 'x')).toMatch(/^[0-9a-f]{16}$/)
})
