import { execFileSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { needProgram } from './debian.ts'
import { makeFolder, removeFolder } from './scratch-folder.ts'

/** Tests and proofs run from the root, and only what is compiled is elsewhere. */
const source = path.resolve('test/support/clock-shim.c')

/** The wall clock of a real server, which a test can set while the server runs. Start the server with `environment`. */
export class ServerClock {
  readonly #folder = makeFolder('clock')

  constructor() {
    // A server may run as another user.
    chmodSync(this.#folder, 0o755)
    const gcc = needProgram('gcc', ['gcc', 'libc6-dev'])
    execFileSync(gcc, ['-shared', '-fPIC', '-O2', '-o', this.#library, source], { stdio: 'pipe' })
    this.set(0)
  }

  get #library(): string {
    return path.join(this.#folder, 'clock-shim.so')
  }

  get #offsetFile(): string {
    return path.join(this.#folder, 'offset')
  }

  get environment(): Readonly<Record<string, string>> {
    return { LD_PRELOAD: this.#library, CLOCK_OFFSET_FILE: this.#offsetFile }
  }

  /** From now on the server's time of day is the true one and this much more. */
  set(offsetMs: number): void {
    writeFileSync(this.#offsetFile, String(offsetMs), { mode: 0o644 })
  }

  remove(): void {
    removeFolder(this.#folder)
  }
}
