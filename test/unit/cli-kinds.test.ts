import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { exitCodeOf } from '../../src/cli/exit-codes.ts'
import { lockNameOf, targetOf } from '../../src/cli/output/lock-name.ts'
import { byteRange, connect, inode, issue, path } from '../../src/index.ts'
import { cliBench } from './support/cli-bench.ts'

/** One lock of each kind, held, and a named one that reads like another. */
async function held(store: string) {
  const locks = await connect(store, { allowForce: true })
  const leases = {
    name: await locks.acquire('inode 7'),
    inode: await locks.acquire(inode(7)),
    path: await locks.acquire(path('/a/b')),
    issue: await locks.acquire(issue(42)),
    range: await locks.acquire(byteRange(9, 0, 4096)),
  }
  return { locks, leases }
}

const names = [
  ['name', 'inode 7', '"inode 7"'],
  ['inode', '7', 'inode 7'],
  ['path', '/a/b', 'path /a/b'],
  ['issue', '42', 'issue 42'],
  ['range', '9:0-4096', 'range 9:0-4096'],
] as const

describe('ls', () => {
  test('tells kinds apart, and shows names as other commands take them', async () => {
    const { store, leasehold, shown } = cliBench()
    const { locks } = await held(store)
    expect(await leasehold('ls')).toBe(0)
    const [headings, ...rows] = shown.output.trimEnd().split('\n')
    expect(headings).toMatch(/^NAME +KIND +MODE +HOLDER +SERVICE +AGE +LEFT +WAITING$/)
    const firstTwo = rows.map((row) => row.split(/ {2,}/).slice(0, 2).join(', '))
    expect(firstTwo.toSorted()).toEqual(names.map(([kind, name]) => `${name}, ${kind}`).toSorted())
    await locks.close()
  })

  test('counts with a range those who wait for some of it', async () => {
    const { store, leasehold, shown } = cliBench()
    const locks = await connect(store)
    await locks.acquire(byteRange(9, 0, 10))
    await locks.acquire(byteRange(9, 100, 200))
    locks.acquire(byteRange(9, 5, 6)).catch(() => {})
    await expect.poll(async () => (await locks.inspect(inode(9)))?.waiters.length).toBe(1)
    expect(await leasehold('ls')).toBe(0)
    expect(shown.output).toMatch(/^9:0-10 .* 1$/m)
    expect(shown.output).toMatch(/^9:100-200 .* 0$/m)
    await locks.close()
  })

  test('--json says the kind', async () => {
    const { store, leasehold, shown } = cliBench()
    const { locks } = await held(store)
    expect(await leasehold('ls', '--json')).toBe(0)
    const documents = shown.output
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { kind: string; name: string; holders: { range?: object }[] })
    expect(documents.map(({ kind, name }) => `${kind} ${name}`).toSorted()).toEqual(
      ['name inode 7', 'inode 7', 'path /a/b', 'issue 42', 'inode 9'].toSorted(),
    )
    const ranges = documents.find(({ name }) => name === '9')?.holders.map(({ range }) => range)
    expect(ranges).toEqual([{ start: 0, end: 4096 }])
    await locks.close()
  })
})

describe.each(names)('a lock of the kind %s called %s', (kind, name, label) => {
  test('is explained', async () => {
    const { store, leasehold, shown } = cliBench()
    const { locks, leases } = await held(store)
    expect(await leasehold('explain', '--kind', kind, name)).toBe(0)
    expect(shown.output).toContain(`${label} (${leases[kind].key})\n`)
    expect(shown.output).toContain(`fence ${leases[kind].fence},`)
    expect(shown.output.split('held by')).toHaveLength(2)
    shown.output = ''
    expect(await leasehold('explain', '--kind', kind, name, '--json')).toBe(0)
    expect(JSON.parse(shown.output)).toMatchObject({ kind, name, holders: [{ fence: leases[kind].fence }] })
    await locks.close()
  })

  test('is evicted, and no other', async () => {
    const { store, leasehold, shown } = cliBench()
    const { locks, leases } = await held(store)
    expect(await leasehold('evict', name, '--kind', kind, '--reason', 'stuck', '--yes')).toBe(0)
    expect(shown.output).toBe(`evicted fence ${leases[kind].fence} from ${label}\n`)
    await expect.poll(() => leases[kind].held).toBe(false)
    const lost = Object.values(leases).filter((lease) => !lease.held)
    expect(lost).toEqual([leases[kind]])
    await locks.close()
  })

  test('is watched', async () => {
    const { store, leasehold, shown } = cliBench()
    const { locks, leases } = await held(store)
    const watching = leasehold('watch', name, '--kind', kind)
    await expect.poll(() => shown.output).toContain(`with fence ${leases[kind].fence}\n`)
    expect(shown.output).toContain(` ${label}: held by`)
    process.emit('SIGTERM', 'SIGTERM')
    expect(await watching).toBe(143)
    await locks.close()
  })

  test('is taken, and waited for under this name', async () => {
    const { store, leasehold, shown } = cliBench()
    const { locks } = await held(store)
    expect(await leasehold('run', name, '--kind', kind, '--no-wait', '--', 'true')).toBe(75)
    await locks.close()
    expect(await leasehold('run', name, '--kind', kind, '--', 'true')).toBe(0)
    expect(await leasehold('explain', name, '--kind', kind)).toBe(0)
    expect(shown.output).toBe(`${label} is free: nobody holds it and nobody waits.\n`)
  })
})

describe('of an inode with ranges', () => {
  test.each([
    ['range', '9:5-20', [true, false]],
    ['inode', '9', [true, true]],
  ] as const)('%s %s concerns those that touch it', async (kind, name, concerned) => {
    const { store, leasehold, shown } = cliBench()
    await using locks = await connect(store)
    const leases = [await locks.acquire(byteRange(9, 0, 10)), await locks.acquire(byteRange(9, 100, 200))]
    expect(await leasehold('explain', '--kind', kind, name)).toBe(0)
    expect(leases.map(({ fence }) => shown.output.includes(`fence ${fence},`))).toEqual(concerned)
    expect(await leasehold('evict', '--kind', kind, name, '--reason', 'x', '--yes')).toBe(0)
    const [, apart] = leases
    await expect.poll(() => leases[0]?.held).toBe(false)
    await expect.poll(() => apart?.held).toBe(!concerned[1])
  })

  test('a range beside them is free', async () => {
    const { store, leasehold, shown } = cliBench()
    await using locks = await connect(store)
    const lease = await locks.acquire(byteRange(9, 0, 10))
    expect(await leasehold('explain', '--kind', 'range', '9:10-20')).toBe(0)
    expect(shown.output).toBe('range 9:10-20 is free: nobody holds it and nobody waits.\n')
    expect(await leasehold('evict', '--kind', 'range', '9:10-20', '--reason', 'x', '--yes')).toBe(1)
    expect(lease.held).toBe(true)
  })
})

describe('wrong names', () => {
  test.each([
    ['indoe', '7', 'not one of name, path, inode, issue, range.'],
    ['inode', 'seven', '"seven" is not the number of an inode: 7'],
    ['issue', '0', 'An issue must be a whole number of at least 1'],
    ['path', 'a/b', 'is not absolute'],
    ['range', '7', '"7" is no range. Write INODE:START-END'],
    ['range', '7:9-3', 'empty or reversed'],
  ])('%s %s', async (kind, name, message) => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('explain', '--kind', kind, name)).toBe(64)
    expect(shown.errors).toContain(message)
  })

  test('watch --all takes no kind', async () => {
    const { leasehold } = cliBench()
    expect(await leasehold('watch', '--all', '--kind', 'inode')).toBe(64)
  })
})

test('whatever a lock is called, it is wrong use, or called so that the same name finds it again', () => {
  const digits = fc.stringMatching(/^\d{1,20}$/)
  const range = fc.tuple(digits, digits, digits).map(([file, start, end]) => `${file}:${start}-${end}`)
  const name = fc.oneof(
    digits,
    range,
    fc.string(),
    fc.string().map((text) => `/${text}`),
  )
  const kind = fc.constantFrom('name', 'path', 'inode', 'issue', 'range')
  fc.assert(
    fc.property(kind, name, (given, text) => {
      try {
        const target = targetOf(given, text)
        expect(targetOf(target.kind, target.name)).toEqual(target)
        expect(lockNameOf(target.scope)).toEqual({ kind: target.kind, name: target.name })
      } catch (error) {
        expect(exitCodeOf(error)).toBe(64)
      }
    }),
    { numRuns: 5000 },
  )
})

test('whatever words are given to commands that look, it is done, nobody holds it, or wrong use', async () => {
  const option = fc.constantFrom(
    '--json',
    '--kind',
    '--kind=path',
    '--reason',
    '--fence',
    '--yes',
    '--all',
    '--',
    '-',
    '--x',
  )
  const word = fc.oneof(option, fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom('a', '/a', '7', '7:0-4'))
  const command = fc.constantFrom('ls', 'explain', 'evict')
  await fc.assert(
    fc.asyncProperty(command, fc.array(word, { maxLength: 5 }), async (given, words) => {
      const { leasehold, shown } = cliBench()
      expect([0, 1, 64]).toContain(await leasehold(given, ...words))
      // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
      expect(shown.output + shown.errors).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/)
    }),
    { numRuns: 500 },
  )
})
