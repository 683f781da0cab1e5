import { execFile, execFileSync } from 'node:child_process'
import { chmodSync, rmSync, statfsSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { makeFolder, removeFolder } from '../../test/support/scratch-folder.ts'
import type { Heal, StoreFault } from './store.ts'

/** A disk of a few megabytes in memory, which can be filled at once; an ordinary folder where mounting is not allowed. */
export class SmallDisk {
  readonly folder = makeFolder('chaos-disk')
  readonly isMounted: boolean

  constructor(megabytes: number) {
    this.isMounted = this.#mount(megabytes)
    // Servers run as users of their own.
    chmodSync(this.folder, 0o777)
  }

  /** Takes up all room that is left. `healed` is called when there is room again. */
  faults(healed: () => Promise<void> | void = () => {}): Readonly<Record<string, StoreFault>> {
    if (!this.isMounted) return {}
    return { 'disk full': { begin: () => this.#fill(healed) } }
  }

  /** Has makers of temporary folders make them here. */
  async host<Result>(make: () => Promise<Result>): Promise<Result> {
    const usual = process.env['TMPDIR']
    process.env['TMPDIR'] = this.folder
    try {
      return await make()
    } finally {
      if (usual === undefined) delete process.env['TMPDIR']
      else process.env['TMPDIR'] = usual
    }
  }

  remove(): void {
    if (this.isMounted) execFileSync('umount', ['-l', this.folder])
    removeFolder(this.folder)
  }

  async #fill(healed: () => Promise<void> | void): Promise<Heal> {
    const ballast = path.join(this.folder, 'ballast')
    const { bavail, bsize } = statfsSync(this.folder)
    // Others take room at the same time: what is missing in the end does not matter.
    await promisify(execFile)('fallocate', ['-l', String(Math.max(1, bavail - 1) * bsize), ballast]).catch(() => {})
    return async () => {
      rmSync(ballast, { force: true })
      await healed()
    }
  }

  #mount(megabytes: number): boolean {
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', this.folder], { stdio: 'ignore' })
      return true
    } catch {
      return false
    }
  }
}
