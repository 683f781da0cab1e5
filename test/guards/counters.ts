/**
 * The same number in several kinds of places, each written with a guard or without: what processes that believe they
 * hold a lock write to.
 */
import { readFile, rename, writeFile } from 'node:fs/promises'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { fencedFetch, fileGuard, sqlGuard } from '../../src/guards/index.ts'

/** A number that holders of a lock read, add to, and write back. */
export interface Counter {
  read(): Promise<number>
  write(value: number, fence: number): Promise<void>
  close(): Promise<void>
}

/** Opens the counter at a place: a file, or the address of a server. */
export type OpenCounter = (place: string, guarded: boolean) => Promise<Counter>

const row = { table: 'counter', where: { id: 1 } } as const
const resource = 'the counter'

const file: OpenCounter = async (place, guarded) => ({
  read: async () => Number(await readFile(place, 'utf8').catch(() => '0')),
  async write(value, fence) {
    if (guarded) return fileGuard(place).write(String(value), fence)
    const draft = `${place}.${process.pid}`
    await writeFile(draft, String(value))
    await rename(draft, place)
  },
  close: async () => {},
})

const sqlite: OpenCounter = async (place, guarded) => {
  const database = openDatabase(place)
  database.exec('pragma busy_timeout = 5000')
  database.exec('create table if not exists counter (id integer primary key, value integer, fence integer)')
  database.exec('insert into counter values (1, 0, null) on conflict do nothing')
  const guard = sqlGuard('sqlite')
  return {
    read: async () => Number(database.query('select value from counter').get()?.['value']),
    async write(value, fence) {
      if (!guarded) return database.command('update counter set value = ?').run(value)
      const { sql, values } = guard.update({ ...row, set: { value }, fence })
      database.command(sql).run(...(values as number[]))
      guard.check(Number(database.query('select changes() as rows').get()?.['rows']), resource, fence)
    },
    close: async () => database.close(),
  }
}

const http: OpenCounter = async (place, guarded) => {
  const url = `${place}/${guarded ? 'guarded' : 'unguarded'}`
  return {
    read: async () => Number(await (await fetch(url)).text()),
    async write(value, fence) {
      const response = await fencedFetch({ fence }, url, { method: 'PUT', body: String(value) })
      if (!response.ok) throw new Error(`The server answered ${response.status}.`)
    },
    close: async () => {},
  }
}

export const counters: Readonly<Record<string, OpenCounter>> = { file, sqlite, http }
