import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connect, type LeaseProof, type Locks } from '../../src/index.ts'
import { Child } from '../support/child.ts'
import { eventually } from '../support/eventually.ts'
import { folderForTest } from '../support/test-folder.ts'

let folder: string
let url: string
let locks: Locks
const children: Child[] = []

beforeEach(async () => {
  folder = folderForTest('primitives')
  url = `sqlite:${join(folder, 'locks.sqlite')}`
  locks = await connect(url)
})
afterEach(async () => {
  await locks.close()
  await Promise.all(children.splice(0).map((child) => child.kill()))
})

function play(story: string, ...rest: string[]): Child {
  const child = new Child('primitive-story', [story, url, ...rest])
  children.push(child)
  return child
}

test('a lease is handed to another process over the end of the first, and is never free', async () => {
  const first = play('hand off and end')
  const text = await first.line(/version/)
  const { fence } = JSON.parse(text) as LeaseProof
  const waiting = locks.acquire('a', { wait: '60s' })
  waiting.catch(() => {})
  expect(await first.ended()).toBe(0)
  expect(await locks.tryAcquire('a'), 'the store has seen the process end, and keeps the lease').toBeNull()
  const second = play('resume', text)
  expect(await second.line(/resumed/)).toBe(`resumed ${fence}`)
  await pause(11_000)
  expect((await locks.status('a')).fence, 'it is renewed past the ttl it was handed over with').toBe(fence)
  await second.kill()
  expect((await waiting).fence).toBeGreaterThan(fence)
})

test('a machine that dies in the middle of a run keeps the others off until atMost', async () => {
  const startedAt = performance.now()
  const child = play('die in a run')
  await child.line(/running/)
  await child.kill()
  const run = () => locks.once('job', { atMost: '6s' }, () => {})
  expect(await run()).toEqual({ ran: false })
  while (!(await run()).ran) await pause(50)
  expect(performance.now() - startedAt).toBeGreaterThan(6000)
})

test('a killed worker’s task is taken up again at once, with a higher fence', async () => {
  const child = play('claim and wait')
  const fence = Number((await child.line(/claimed/)).split(' ')[1])
  expect(await locks.claim('queue', 'task')).toMatchObject({ state: 'taken' })
  await child.kill()
  const startedAt = performance.now()
  let claimed = await locks.claim('queue', 'task')
  while (claimed.state !== 'claimed') claimed = await locks.claim('queue', 'task')
  expect(performance.now() - startedAt).toBeLessThan(60_000)
  expect(claimed.fence).toBeGreaterThan(fence)
})

test('two working processes do each task once, and one does the tasks of another that is killed', async () => {
  const hung = play('work', 'hang', 'stuck-1', 'stuck-2')
  const fences = new Map<string, number>()
  for (const task of ['stuck-1', 'stuck-2']) {
    fences.set(task, Number((await hung.line(new RegExp(`^has ${task}`))).split(' ')[2]))
  }
  const tasks = Array.from({ length: 30 }, (_, index) => `task-${index}`)
  const workers = [1, 2].map(() => play('work', 'do', ...tasks, 'stuck-1', 'stuck-2'))
  const did = () => workers.flatMap((worker) => worker.lines.filter((line) => line.startsWith('did ')))
  await eventually(() => did().length >= 30, 'the last task')
  expect(
    did().some((line) => line.includes('stuck')),
    'the other process lives',
  ).toBe(false)
  await hung.kill()
  await eventually(() => did().length >= 32, 'the tasks of the killed worker')
  expect(new Set(did().map((line) => line.split(' ')[1])).size, 'no task was done twice').toBe(32)
  for (const [task, fence] of fences) {
    const line = did().find((text) => text.startsWith(`did ${task} `)) ?? ''
    expect(Number(line.split(' ')[2])).toBeGreaterThan(fence)
  }
  expect(workers.every((worker) => worker.lines.every((line) => line.startsWith('did ')))).toBe(true)
})

test('a killed leader is replaced within its ttl', async () => {
  const first = play('lead')
  await first.line(/leads/)
  const second = play('lead')
  await second.line(/status/)
  while ((await locks.inspect('leader:boss'))?.waiters.length !== 1);
  const killedAt = performance.now()
  await first.kill()
  await second.line(/leads/)
  expect(performance.now() - killedAt).toBeLessThan(40_000)
})

test('processes that wait in cycles of two to five: one of each is told, and the others get on', async () => {
  const kinds = ['lock', 'permit', 'file']
  const cycles = [2, 3, 4, 5].map((size) => {
    const names = Array.from({ length: size }, (_, index) => `${kinds[index % 3]}-${index}-of-${size}`)
    return { names, members: names.map((first, index) => play('cross', first, names[(index + 1) % size] ?? '')) }
  })
  for (const { names, members } of cycles) {
    expect(await Promise.all(members.map((child) => child.ended()))).toEqual(members.map(() => 0))
    const said = members.flatMap(({ lines }) => lines.map((line) => /^(\d+) (.*)$/.exec(line) ?? []))
    const at = (text: string) => said.filter((line) => line[2] === text).map((line) => Number(line[1]))
    const told = at(`DEADLOCK ${names.toSorted().join(' ')}`)
    expect(told).toHaveLength(1)
    expect(at('has both')).toHaveLength(names.length - 1)
    expect((told[0] ?? Infinity) - Math.max(...at('asks'))).toBeLessThan(20_000)
  }
})
