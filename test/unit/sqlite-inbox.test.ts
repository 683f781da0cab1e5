import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import {
  Inbox,
  removeDeadInboxes,
  watchFile,
  type WatchFile,
  lookLine,
  readInboxLine,
  writeInboxLine,
  type InboxNotification,
} from '../../src/drivers/sqlite/inbox.ts'
import { InboxNotifier } from '../../src/drivers/sqlite/inbox-notifier.ts'
import { scratch } from '../sqlite/scratch.ts'
import { eventually } from '../support/eventually.ts'

const { file } = scratch()
const stamp = 'boot-1_77_20_900_00000000000000bb'
const status = { state: 'held', fence: 7, ttlMs: 1000 } as const
const notification = { stamp, key: 'a', id: 'one', status }

let inbox: Inbox | undefined
let ringing: InboxNotifier | undefined
afterEach(() => {
  inbox?.close()
  ringing?.close()
  ringing = undefined
})

function notifier(): InboxNotifier {
  ringing ??= new InboxNotifier(file('inboxes'))
  return ringing
}

/** How many of the inboxes this process has open. A runtime opens and closes other files by itself. */
function openBells(): number {
  return readdirSync('/proc/self/fd').filter((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`).startsWith(file('inboxes'))
    } catch {
      // Closed meanwhile.
      return false
    }
  }).length
}

interface Log {
  readonly received: InboxNotification[]
  readonly missed: number[]
  readonly looks: number[]
  readonly removed: number[]
}

function hang(watch: WatchFile = watchFile): Log {
  const log: Log = { received: [], missed: [], looks: [], removed: [] }
  mkdirSync(file('inboxes'), { recursive: true })
  inbox = new Inbox({
    file: path.join(file('inboxes'), stamp),
    watch,
    onNotification: (received) => log.received.push(received),
    onGap: () => log.missed.push(1),
    look: () => log.looks.push(1),
    removed: () => log.removed.push(1),
    isAwaited: () => true,
  })
  return log
}

const withoutWatchers: WatchFile = () => {
  throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
}

test('news comes back from a line as it went in', () => {
  expect(readInboxLine(writeInboxLine(notification).trimEnd())).toEqual({ key: 'a', id: 'one', status })
})

test.each([
  'nonsense',
  'null',
  '[]',
  '{"key":"a","id":"b"}',
  '{"key":1,"id":"b","status":{"state":"held","fence":1,"ttlMs":1}}',
  '{"key":"a","id":"b","status":{"state":"held","fence":-1,"ttlMs":1}}',
  '{"key":"a","id":"b","status":{"state":"held","fence":1}}',
  '{"key":"a","id":"b","status":{"state":"waiting","ahead":0,"ttlMs":1,"againMs":1}}',
  '{"key":"a","id":"b","status":{"state":"absent"}}',
])('%s is nobody’s news', (line) => {
  expect(readInboxLine(line)).toBeUndefined()
})

test.each([
  ['watched', watchFile],
  ['polled where there are no watchers left', withoutWatchers],
])('an inbox is %s', async (_how, watch) => {
  const { received } = hang(watch)
  await notifier().ring([notification, { ...notification, id: 'two' }])
  await eventually(() => received[1], 'the second piece of news')
  expect(received.map(({ id }) => id)).toEqual(['one', 'two'])
})

test('a watcher that fails later is replaced by polling', async () => {
  let fail = () => {}
  const { received } = hang((_file, _changed, failed) => {
    fail = failed
    return { close() {} }
  })
  fail()
  await notifier().ring([notification])
  await eventually(() => received[0], 'notifications')
})

test('a line in two pieces is one piece of news, and bad lines beside it harm nothing', () => {
  const { received } = hang(() => ({ close() {} }))
  const name = path.join(file('inboxes'), stamp)
  const line = Buffer.from(writeInboxLine({ ...notification, key: 'grün' }))
  appendFileSync(name, 'nonsense\n')
  appendFileSync(name, line.subarray(0, 11))
  inbox?.listen()
  expect(received).toEqual([])
  appendFileSync(name, line.subarray(11))
  inbox?.listen()
  expect(received).toEqual([{ key: 'grün', id: 'one', status }])
})

test('an inbox that has grown too large is emptied, and those who wait are told to ask', async () => {
  const { received, missed } = hang(() => ({ close() {} }))
  const notices = Array.from({ length: 5000 }, () => notification)
  await notifier().ring(notices)
  inbox?.listen()
  expect(received).toHaveLength(5000)
  expect(missed).toHaveLength(1)
  expect(statSync(path.join(file('inboxes'), stamp)).size).toBe(0)
  await notifier().ring([notification])
  inbox?.listen()
  expect(received).toHaveLength(5001)
})

test('ringing for somebody who has gone makes no file, and a name cannot lead elsewhere', async () => {
  mkdirSync(file('inboxes'))
  writeFileSync(file('victim'), '')
  await notifier().ring([notification, { ...notification, stamp: '../victim' }])
  expect(existsSync(path.join(file('inboxes'), stamp))).toBe(false)
  expect(statSync(file('victim')).size).toBe(0)
})

test('a ringer keeps few inboxes open, and reaches all', async () => {
  const stamps = Array.from({ length: 40 }, (_, index) => stamp.replace('_20_', `_${100 + index}_`))
  mkdirSync(file('inboxes'))
  for (const name of stamps) writeFileSync(path.join(file('inboxes'), name), '')
  const openBefore = openBells()
  for (const round of [1, 2]) {
    for (const name of stamps) await notifier().ring([{ ...notification, stamp: name, id: String(round) }])
  }
  expect(openBells() - openBefore).toBeLessThanOrEqual(32)
  for (const name of stamps) {
    const lines = readFileSync(path.join(file('inboxes'), name), 'utf8')
      .trimEnd()
      .split('\n')
    expect(lines.map((line) => readInboxLine(line)?.id)).toEqual(['1', '2'])
  }
})

test('inboxes of the dead are taken down, those of the living and of other boots stay', () => {
  const names = { dead: stamp, alive: stamp.replace('_20_', '_21_'), elsewhere: stamp.replace('boot-1', 'boot-2') }
  mkdirSync(file('inboxes'))
  for (const name of Object.values(names)) writeFileSync(path.join(file('inboxes'), name), '')
  const self = { boot: 'boot-1', namespace: '77', pid: 1, started: 1, serial: '0' }
  removeDeadInboxes(file('inboxes'), { self, isGone: ({ pid }) => pid === 20 })
  expect(existsSync(path.join(file('inboxes'), names.dead))).toBe(false)
  expect(existsSync(path.join(file('inboxes'), names.alive))).toBe(true)
  expect(existsSync(path.join(file('inboxes'), names.elsewhere))).toBe(true)
})

test('inboxes of containers that nobody has heard of for a day are taken down', () => {
  const names = { quiet: stamp.replace('_77_', '_78_'), touched: stamp.replace('_77_', '_79_') }
  mkdirSync(file('inboxes'))
  for (const name of Object.values(names)) writeFileSync(path.join(file('inboxes'), name), '')
  const longAgo = new Date(Date.now() - 90_000_000)
  utimesSync(path.join(file('inboxes'), names.quiet), longAgo, longAgo)
  const self = { boot: 'boot-1', namespace: '77', pid: 1, started: 1, serial: '0' }
  removeDeadInboxes(file('inboxes'), { self, isGone: () => false })
  expect(readdirSync(file('inboxes'))).toEqual([names.touched])
})

test('an inbox that is in use is touched, and then counts as heard', () => {
  hang()
  const name = path.join(file('inboxes'), stamp)
  utimesSync(name, 0, 0)
  inbox?.touch()
  expect(Date.now() - statSync(name).mtimeMs).toBeLessThan(3_600_000)
})

test('an inbox says when it has been deleted, and whoever rings finds the one hung in its place', async () => {
  const log = hang()
  await notifier().ring([notification])
  rmSync(path.join(file('inboxes'), stamp))
  await eventually(() => log.removed.length > 0, 'the news of the deletion')
  inbox?.close()
  const second = hang()
  await notifier().ring([{ ...notification, id: 'two' }])
  expect((await eventually(() => second.received[0], 'the news')).id).toBe('two')
})

test('news that comes right after other news is heard as soon', async () => {
  const log = hang()
  for (let ring = 1; ring <= 50; ring += 1) {
    await notifier().ring([{ ...notification, id: String(ring) }])
    // At once: the next is to come within the same millisecond.
    for (const until = performance.now() + 5000; log.received.length < ring; await nextTurn()) {
      expect(performance.now(), `ring ${ring}`).toBeLessThan(until)
    }
  }
})

test('an inbox that is a link is not rung', async () => {
  mkdirSync(file('inboxes'))
  writeFileSync(file('victim'), '')
  symlinkSync(file('victim'), path.join(file('inboxes'), stamp))
  await notifier().ring([notification])
  expect(statSync(file('victim')).size).toBe(0)
})

test('an inbox asks its owner to look at the file', async () => {
  const log = hang()
  appendFileSync(path.join(file('inboxes'), stamp), `${lookLine}${writeInboxLine(notification)}`)
  await eventually(() => log.received[0], 'the line behind it')
  expect(log.looks).toHaveLength(1)
})

test('a closed inbox leaves no file', () => {
  hang()
  inbox?.close()
  expect(existsSync(path.join(file('inboxes'), stamp))).toBe(false)
})

test('an inbox that is let go while it rings is closed when it has rung', async () => {
  mkdirSync(file('inboxes'))
  writeFileSync(path.join(file('inboxes'), stamp), '')
  const openBefore = openBells()
  const rung = notifier().ring([notification])
  ringing?.close()
  expect(openBells() - openBefore).toBe(1)
  await rung
  expect(openBells() - openBefore).toBe(0)
  expect(readInboxLine(readFileSync(path.join(file('inboxes'), stamp), 'utf8').trimEnd())?.id).toBe('one')
})
