/** Stores for a matrix of compositions, with what may become of them. */
import { cpSync, existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { documentDriver } from '../../src/drivers/document/driver.ts'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { DocumentShelf } from '../unit/support/document-shelf.ts'
import { RestartingStore } from '../unit/composition/restarting-store.ts'
import type { MatrixTime } from './time.ts'

/** One store, which any number of processes may open. */
export interface MatrixStore {
  /** One more driver on it. `forOthers`: of a server. */
  driver(forOthers: boolean): LockDriver
  /** For `connect`, where another thread can open it too. */
  readonly url?: string
  /** Whether it is gone with the process that serves it. */
  readonly livesInServer?: boolean
  /** Throws its data away and goes on, as a server does that restarts without them. */
  comesBackEmpty?(): Promise<void>
  /** Keeps a copy, to be restored later. */
  copy?(): Promise<void>
  restore?(): Promise<void>
  /** Ends all connections to it. */
  endConnections?(): Promise<void>
  /** It is killed, and started again with its data. */
  restarts?(): Promise<void>
  discard(): Promise<void>
}

/** How to make one: `offMs` is by how much its clock is wrong. */
export type MakeStore = (time: MatrixTime, offMs?: number) => Promise<MatrixStore>

export const memoryStore: MakeStore = async (time, offMs) => {
  const store = new RestartingStore(time.clock(offMs))
  return {
    livesInServer: true,
    driver: () => store,
    comesBackEmpty: async () => store.restartEmpty(),
    discard: async () => {},
  }
}

/** Any store that can compare and swap: its documents can be copied, and put back. */
export const documentStore: MakeStore = async (time, offMs) => {
  const clock = time.clock(offMs)
  const shelf = new DocumentShelf(() => Math.floor(clock.now()))
  let bornAt = clock.now()
  let copy = new Map(shelf.documents)
  const become = (documents: typeof copy): void => {
    shelf.documents.clear()
    for (const [key, document] of documents) shelf.documents.set(key, document)
    // As the contract has it: whatever may bring back an older copy begins a new age.
    bornAt = clock.now()
  }
  return {
    driver: () => {
      const store = { ...shelf.store(), dataAgeMs: async () => clock.now() - bornAt }
      return documentDriver(store, time.environment())
    },
    comesBackEmpty: async () => become(new Map()),
    copy: async () => void (copy = new Map(shelf.documents)),
    restore: async () => become(copy),
    discard: async () => {},
  }
}

/** A file, which is thrown away or put back while it is in use. */
export const sqliteStore: MakeStore = async (time, offMs) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-composition-'))
  const file = path.join(folder, 'locks.sqlite')
  const parts = ['', '-wal', '-shm'].map((ending) => `${file}${ending}`)
  const remove = (): void => parts.forEach((part) => rmSync(part, { force: true }))
  return {
    url: `sqlite:${file}`,
    driver: (forOthers) => {
      const environment = time.isReal && offMs === undefined ? {} : { environment: { clock: time.clock(offMs) } }
      return sqlite({ file, forOthers, ...environment })
    },
    comesBackEmpty: async () => remove(),
    copy: async () => {
      for (const part of parts) if (existsSync(part)) cpSync(part, `${part}.copy`)
    },
    restore: async () => {
      remove()
      for (const part of parts) if (existsSync(`${part}.copy`)) renameSync(`${part}.copy`, part)
    },
    discard: async () => rmSync(folder, { recursive: true, force: true }),
  }
}
