import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
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
  checkFileLine,
  readInboxLine,
  writeInboxLine,
  type InboxNotification,
} from '../../src/drivers/sqlite/inbox.ts'
import { InboxNotifier, InboxWriter } from '../../src/drivers/sqlite/inbox-notifier.ts'
import { refuseStrangeInboxes } from '../../src/drivers/sqlite/store-file.ts'
import { scratch } from '../sqlite/scratch.ts'
import { eventually } from '../support/eventually.ts'

const { file } = scratch()
const stamp = 'boot-1_77_20_900_00000000000000bb'
const status = { state: 'held', fence: 7, ttlMs: 1000 } as const
const notification = { stamp, key: 'a', id: 'one', status }

let inbox: Inbox | undefined
let opened: InboxNotifier | undefined
afterEach(() => {
  inbox?.close()
  opened?.close()
  opened = undefined
})

function notifier(): InboxNotifier {
  opened ??= new InboxNotifier(file('inboxes'))
  return opened
}

/** How many of the inboxes this process has open. A runtime opens and closes other files by itself. */
function openInboxes(): number {
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
  readonly gaps: number[]
  readonly fileChecks: number[]
  readonly removed: number[]
}

function openInbox(watch: WatchFile = watchFile): Log {
  const log: Log = { received: [], gaps: [], fileChecks: [], removed: [] }
  mkdirSync(file('inboxes'), { recursive: true })
  inbox = new Inbox({
    file: path.join(file('inboxes'), stamp),
    watch,
    onNotification: (received) => log.received.push(received),
    onGap: () => log.gaps.push(1),
    checkFile: () => log.fileChecks.push(1),
    onRemoved: () => log.removed.push(1),
    isAwaited: () => true,
  })
  return log
}

const withoutWatchers: WatchFile = () => {
  throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
}

test('a notification comes back from a line as it went in', () => {
  expect(readInboxLine(writeInboxLine(notification).trimEnd())).toEqual({ key: 'a', id: 'one', status })
})

test.each([
  'nonsense',
  'null',
  '[]',
  '{"key":"a","id":"b"}',
  '{"key":1,"id":"b","status":{"state":"held","fence":1,"ttlMs":1}}',
  '{"key":"a","id":"b","status":null}',
  '{"key":"a","id":"b","status":"held"}',
  JSON.stringify({ key: 'a'.repeat(64 * 1024), id: 'b', status }),
])('a line that is no status of a claim is ignored: %.60s', (line) => {
  expect(readInboxLine(line)).toBeUndefined()
})

test('a line is only decoded: whoever listens to the driver checks the status', () => {
  const line = '{"key":"a","id":"b","status":{"state":"held","fence":-1}}'
  expect(readInboxLine(line)).toEqual({ key: 'a', id: 'b', status: { state: 'held', fence: -1 } })
})

test.each([
  ['watched', watchFile],
  ['polled where there are no watchers left', withoutWatchers],
])('an inbox is %s', async (_how, watch) => {
  const { received } = openInbox(watch)
  await notifier().notify([notification, { ...notification, id: 'two' }])
  await eventually(() => received[1], 'the second notification')
  expect(received.map(({ id }) => id)).toEqual(['one', 'two'])
})

test('a watcher that fails later is replaced by polling', async () => {
  let fail = () => {}
  const { received } = openInbox((_file, _changed, failed) => {
    fail = failed
    return { close() {} }
  })
  fail()
  await notifier().notify([notification])
  await eventually(() => received[0], 'notifications')
})

test('a line in two pieces is one notification, and bad lines beside it harm nothing', () => {
  const { received } = openInbox(() => ({ close() {} }))
  const name = path.join(file('inboxes'), stamp)
  const line = Buffer.from(writeInboxLine({ ...notification, key: 'grün' }))
  appendFileSync(name, 'nonsense\n')
  appendFileSync(name, line.subarray(0, 11))
  inbox?.read()
  expect(received).toEqual([])
  appendFileSync(name, line.subarray(11))
  inbox?.read()
  expect(received).toEqual([{ key: 'grün', id: 'one', status }])
})

test('an inbox that has grown too large is emptied, and a gap is reported', async () => {
  const { received, gaps } = openInbox(() => ({ close() {} }))
  const notifications = Array.from({ length: 5000 }, () => notification)
  await notifier().notify(notifications)
  inbox?.read()
  expect(received).toHaveLength(5000)
  expect(gaps).toHaveLength(1)
  expect(statSync(path.join(file('inboxes'), stamp)).size).toBe(0)
  await notifier().notify([notification])
  inbox?.read()
  expect(received).toHaveLength(5001)
})

test('notifying a process that has gone makes no file, and a stamp cannot lead out of the directory', async () => {
  mkdirSync(file('inboxes'))
  writeFileSync(file('victim'), '')
  await notifier().notify([notification, { ...notification, stamp: '../victim' }])
  expect(existsSync(path.join(file('inboxes'), stamp))).toBe(false)
  expect(statSync(file('victim')).size).toBe(0)
})

test('a notifier keeps few inboxes open, and reaches all', async () => {
  const stamps = Array.from({ length: 40 }, (_, index) => stamp.replace('_20_', `_${100 + index}_`))
  mkdirSync(file('inboxes'))
  for (const name of stamps) writeFileSync(path.join(file('inboxes'), name), '')
  const openBefore = openInboxes()
  for (const round of [1, 2]) {
    for (const name of stamps) await notifier().notify([{ ...notification, stamp: name, id: String(round) }])
  }
  expect(openInboxes() - openBefore).toBeLessThanOrEqual(32)
  for (const name of stamps) {
    const lines = readFileSync(path.join(file('inboxes'), name), 'utf8')
      .trimEnd()
      .split('\n')
    expect(lines.map((line) => readInboxLine(line)?.id)).toEqual(['1', '2'])
  }
})

test('inboxes of dead processes are removed, those of live ones and of other boots stay', () => {
  const names = { dead: stamp, alive: stamp.replace('_20_', '_21_'), elsewhere: stamp.replace('boot-1', 'boot-2') }
  mkdirSync(file('inboxes'))
  for (const name of Object.values(names)) writeFileSync(path.join(file('inboxes'), name), '')
  const own = { boot: 'boot-1', namespace: '77', pid: 1, started: 1, serial: '0' }
  removeDeadInboxes(file('inboxes'), { stamp: own, isGone: ({ pid }) => pid === 20 })
  expect(existsSync(path.join(file('inboxes'), names.dead))).toBe(false)
  expect(existsSync(path.join(file('inboxes'), names.alive))).toBe(true)
  expect(existsSync(path.join(file('inboxes'), names.elsewhere))).toBe(true)
})

test('inboxes of other containers that were not touched for a day are removed', () => {
  const names = { quiet: stamp.replace('_77_', '_78_'), touched: stamp.replace('_77_', '_79_') }
  mkdirSync(file('inboxes'))
  for (const name of Object.values(names)) writeFileSync(path.join(file('inboxes'), name), '')
  const longAgo = new Date(Date.now() - 90_000_000)
  utimesSync(path.join(file('inboxes'), names.quiet), longAgo, longAgo)
  const own = { boot: 'boot-1', namespace: '77', pid: 1, started: 1, serial: '0' }
  removeDeadInboxes(file('inboxes'), { stamp: own, isGone: () => false })
  expect(readdirSync(file('inboxes'))).toEqual([names.touched])
})

test('an inbox that is in use is touched', () => {
  openInbox()
  const name = path.join(file('inboxes'), stamp)
  utimesSync(name, 0, 0)
  inbox?.touch()
  expect(Date.now() - statSync(name).mtimeMs).toBeLessThan(3_600_000)
})

test('an inbox reports that it was deleted, and a notifier finds the one made in its place', async () => {
  const log = openInbox()
  await notifier().notify([notification])
  rmSync(path.join(file('inboxes'), stamp))
  await eventually(() => log.removed.length > 0, 'the report of the deletion')
  inbox?.close()
  const second = openInbox()
  await notifier().notify([{ ...notification, id: 'two' }])
  expect((await eventually(() => second.received[0], 'the notification')).id).toBe('two')
})

test('a notification right after another arrives as soon', async () => {
  const log = openInbox()
  for (let count = 1; count <= 50; count += 1) {
    await notifier().notify([{ ...notification, id: String(count) }])
    // At once: the next is to come within the same millisecond.
    for (const until = performance.now() + 5000; log.received.length < count; await nextTurn()) {
      expect(performance.now(), `notification ${count}`).toBeLessThan(until)
    }
  }
})

test('an inbox that is a symbolic link is not written to', async () => {
  mkdirSync(file('inboxes'))
  writeFileSync(file('victim'), '')
  symlinkSync(file('victim'), path.join(file('inboxes'), stamp))
  await notifier().notify([notification])
  expect(statSync(file('victim')).size).toBe(0)
})

test('a line asks the owner of an inbox to check the lock file', async () => {
  const log = openInbox()
  appendFileSync(path.join(file('inboxes'), stamp), `${checkFileLine}${writeInboxLine(notification)}`)
  await eventually(() => log.received[0], 'the line behind it')
  expect(log.fileChecks).toHaveLength(1)
})

test('a closed inbox leaves no file', () => {
  openInbox()
  inbox?.close()
  expect(existsSync(path.join(file('inboxes'), stamp))).toBe(false)
})

test('an inbox that is closed during a write stays open until the write has ended', async () => {
  mkdirSync(file('inboxes'))
  writeFileSync(path.join(file('inboxes'), stamp), '')
  const openBefore = openInboxes()
  const notified = notifier().notify([notification])
  opened?.close()
  expect(openInboxes() - openBefore).toBe(1)
  await notified
  expect(openInboxes() - openBefore).toBe(0)
  expect(readInboxLine(readFileSync(path.join(file('inboxes'), stamp), 'utf8').trimEnd())?.id).toBe('one')
})

test.skipIf(process.platform === 'win32')('an inbox that is a pipe, or has a second name, is not written to', () => {
  writeFileSync(file('victim'), '')
  linkSync(file('victim'), file('link'))
  execFileSync('mkfifo', [file('pipe')])
  // Opening a pipe that nobody reads would block for ever.
  for (const name of ['link', 'pipe']) expect(() => new InboxWriter(file(name))).toThrow()
  const reader = openSync(file('pipe'), constants.O_RDONLY | constants.O_NONBLOCK)
  expect(() => new InboxWriter(file('pipe'))).toThrow(/is no inbox/)
  closeSync(reader)
})

test.skipIf(process.getuid?.() !== 0)(
  'nothing is written to a directory that somebody else has made meanwhile',
  async () => {
    mkdirSync(`${file()}.inboxes`, { mode: 0o700 })
    writeFileSync(file(), '')
    const target = path.join(`${file()}.inboxes`, stamp)
    writeFileSync(target, '')
    const careful = new InboxNotifier(`${file()}.inboxes`, () => refuseStrangeInboxes(file()))
    chownSync(`${file()}.inboxes`, 65_534, 65_534)
    await careful.notify([notification])
    expect(statSync(target).size).toBe(0)
    chownSync(`${file()}.inboxes`, 0, 0)
    await careful.notify([notification])
    expect(statSync(target).size).toBeGreaterThan(0)
    careful.close()
  },
)
