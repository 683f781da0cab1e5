/** The floor for locks in a SQLite file: a queue of rows and an inbox file, without leases, fences, deaths or errors. */
import { openSync, rmSync, watch, writeFileSync, writeSync } from 'node:fs'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'

/** Takes the lock and resolves to its release function. */
export type Take = () => Promise<() => Promise<unknown>>

export function bareQueue(directory: string): { take: Take; close: () => Promise<void> } {
  const database = openDatabase(`${directory}/bare.sqlite`)
  database.exec('pragma busy_timeout = 5000')
  database.exec('pragma journal_mode = wal; pragma synchronous = normal')
  database.exec('create table if not exists queue (place integer primary key autoincrement, owner integer not null)')
  const enter = database.query('insert into queue (owner) values (?) returning place')
  const leave = database.command('delete from queue where place = ?')
  const first = database.query('select place, owner from queue order by place limit 1')

  const inboxOf = (stamp: number): string => `${directory}/bare-inbox-${stamp}`
  writeFileSync(inboxOf(process.pid), '')
  let received: (() => void) | undefined
  const watcher = watch(inboxOf(process.pid), { persistent: true }, () => received?.())
  const writers = new Map<number, number>()
  const ring = (stamp: number): void => {
    const writer = writers.get(stamp) ?? openSync(inboxOf(stamp), 'r+')
    writers.set(stamp, writer)
    writeSync(writer, '.', 0)
  }

  const inTransaction = <Result>(work: () => Result): Result => {
    database.exec('begin immediate')
    const result = work()
    database.exec('commit')
    return result
  }
  const isFirst = (place: number): boolean => first.get()?.['place'] === place

  return {
    async take() {
      const place = inTransaction(() => enter.get(process.pid)?.['place'] as number)
      if (!isFirst(place)) {
        await new Promise<void>((resolve) => {
          received = () => void (isFirst(place) && resolve())
          // The holder may have left before we listened: check once.
          received()
        })
      }
      received = undefined
      return async () => {
        const next = inTransaction(() => {
          leave.run(place)
          return first.get()?.['owner'] as number | undefined
        })
        if (next !== undefined && next !== process.pid) ring(next)
      }
    },
    async close() {
      watcher.close()
      database.close()
      rmSync(inboxOf(process.pid))
    },
  }
}
