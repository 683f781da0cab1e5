import { cpSync, readdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { makeFolder, removeFolder } from '../../../test/support/scratch-folder.ts'
import { SmallDisk } from '../small-disk.ts'
import type { ChaosStore, StoreFault } from '../store.ts'

/** The file, and those that SQLite has beside it. */
const own = /^locks\.sqlite(-wal|-shm|-journal)?$/
/** The folder of wake-up files stays; what is in it must not. */
const inboxes = 'locks.sqlite.inboxes'

/**
 * One file that all clients open, on a disk of its own. A file that is lost and a clock set back are too much together, as the
 * store's page says: with even seeds files are lost, with odd ones the clients' clocks jump.
 */
export async function sqliteChaos(seed: number): Promise<ChaosStore> {
  const losesFiles = seed % 2 === 0
  const disk = new SmallDisk(64)
  const copies = makeFolder('chaos-copies')
  const file = path.join(disk.folder, 'locks.sqlite')
  const files = (): string[] => readdirSync(disk.folder).filter((name) => own.test(name))
  const empty = (): void => {
    for (const name of files()) rmSync(path.join(disk.folder, name), { force: true })
  }
  const losses: Readonly<Record<string, StoreFault>> = {
    // Nobody may have the file open meanwhile.
    'restored from an older copy': {
      begin: (_choice, crew) => {
        crew.killAll()
        return async () => {
          await crew.ended()
          for (const name of files()) cpSync(path.join(disk.folder, name), path.join(copies, `next-${name}`))
          const older = readdirSync(copies).filter((name) => own.test(name))
          if (older.length > 0) empty()
          for (const name of older) cpSync(path.join(copies, name), path.join(disk.folder, name))
          for (const name of older) rmSync(path.join(copies, name))
          for (const name of readdirSync(copies)) {
            cpSync(path.join(copies, name), path.join(copies, name.slice('next-'.length)))
            rmSync(path.join(copies, name))
          }
          await crew.replaceAll()
        }
      },
    },
    emptied: {
      begin: (_choice, crew) => {
        crew.killAll()
        return async () => {
          await crew.ended()
          empty()
          await crew.replaceAll()
        }
      },
    },
  }
  return {
    url: () => `sqlite:${file}`,
    directUrl: `sqlite:${file}`,
    proxies: [],
    faults: { ...disk.faults(), ...(losesFiles && losses) },
    keepsClocks: losesFiles,
    often: ['disk full', 'disk full', 'disk full'],
    left: async () =>
      readdirSync(disk.folder, { recursive: true, encoding: 'utf8' }).filter(
        (name) => !own.test(name) && name !== inboxes,
      ),
    stop: async () => {
      disk.remove()
      removeFolder(copies)
    },
  }
}
