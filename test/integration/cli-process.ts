import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { eventually } from '../support/eventually.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

const cli = path.resolve('dist/node/cli.js')

/** `script` of util-linux gives a command a terminal. */
export const hasTerminals = String(spawnSync('script', ['--version']).stdout).includes('util-linux')

/** A directory with a store of its own, and the command line on it as real processes. */
export class Workshop {
  readonly directory = makeFolder('cli')
  readonly storeFile = path.join(this.directory, 'locks.sqlite')
  readonly #started: CommandLine[] = []

  leasehold(...args: string[]): CommandLine {
    return this.#start(process.execPath, [cli, ...args])
  }

  /** The same as it is for most users, who may make no control groups: with nothing to see where the system keeps them. */
  withoutControlGroups(mountedAt: string, ...args: string[]): CommandLine {
    const hide = 'mount -t tmpfs -o ro none "$0" && exec "$@"'
    return this.#start('unshare', ['--mount', 'sh', '-c', hide, mountedAt, process.execPath, cli, ...args])
  }

  /** The same started by another program, which is given it as its last arguments. */
  through(program: string, before: readonly string[], ...args: string[]): CommandLine {
    return this.#start(program, [...before, process.execPath, cli, ...args])
  }

  /** The same on a terminal of its own: what it prints and what it says are one there. */
  atTerminal(...args: string[]): CommandLine {
    const words = [process.execPath, cli, ...args].map((word) => `'${word}'`)
    return this.#start('script', ['--quiet', '--return', '--command', `exec ${words.join(' ')}`, '/dev/null'])
  }

  /** A script that may say `leasehold`. */
  inShell(script: string): CommandLine {
    const command = path.join(this.directory, 'leasehold')
    writeFileSync(command, `#!/bin/sh\nexec '${process.execPath}' '${cli}' "$@"\n`, { mode: 0o755 })
    return this.#start('sh', ['-c', `PATH="$PWD:$PATH"; ${script}`])
  }

  #start(command: string, args: readonly string[]): CommandLine {
    const started = new CommandLine(command, args, {
      cwd: this.directory,
      env: { ...process.env, LEASEHOLD_STORE: `sqlite:${this.storeFile}`, LEASEHOLD_NAMESPACE: undefined },
    })
    this.#started.push(started)
    return started
  }

  /** Leaves a file here for a command. */
  write(name: string, text: string): void {
    writeFileSync(path.join(this.directory, name), text)
  }

  /** What a command wrote to a file here; empty if it has not. */
  read(name: string): string {
    const file = path.join(this.directory, name)
    return existsSync(file) ? readFileSync(file, 'utf8') : ''
  }

  /** Resolves with the text of a file once a line of it is complete. */
  async written(name: string): Promise<string> {
    await eventually(() => this.read(name).includes('\n'), `${name} is written`)
    return this.read(name).trim()
  }

  /** The lock as `explain --json` shows it. */
  async lock(name: string): Promise<LockDocument> {
    const { output } = await this.leasehold('explain', name, '--json').ended()
    return JSON.parse(output) as LockDocument
  }

  async close(): Promise<void> {
    for (const started of this.#started) started.kill('SIGKILL')
    await Promise.all(this.#started.map((started) => started.ended()))
    removeFolder(this.directory)
  }
}

export interface LockDocument {
  readonly holders: readonly {
    readonly fence: number
    readonly expiresAt: string
    readonly runner: { readonly id: string }
  }[]
  readonly waiters: readonly object[]
}

export interface Ended {
  readonly code: number | null
  readonly output: string
  readonly errors: string
}

/** One process of the command line. */
export class CommandLine {
  output = ''
  errors = ''
  readonly #child: ChildProcess
  readonly #ended: Promise<Ended>

  constructor(command: string, args: readonly string[], place: { cwd: string; env: NodeJS.ProcessEnv }) {
    const child = spawn(command, args, { ...place, stdio: ['pipe', 'pipe', 'pipe'] })
    child.stdout.on('data', (chunk: Buffer) => (this.output += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (this.errors += chunk.toString()))
    this.#child = child
    // On exit, not on close: what a killed process started may hold its pipes for a moment longer.
    this.#ended = new Promise((resolve, reject) => {
      child.on('error', reject)
      child.on('exit', (code) => setImmediate(() => resolve({ code, output: this.output, errors: this.errors })))
    })
  }

  get pid(): number {
    return this.#child.pid as number
  }

  type(text: string): void {
    this.#child.stdin?.write(text)
  }

  endInput(): void {
    this.#child.stdin?.end()
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  ended(): Promise<Ended> {
    return this.#ended
  }

  /** Resolves once it has said something on standard error. */
  async says(pattern: RegExp): Promise<void> {
    await eventually(() => pattern.test(this.errors), `it says ${pattern}`).catch((error: unknown) => {
      throw new Error(`It said: ${this.errors || 'nothing'}`, { cause: error })
    })
  }
}

/** Resolves once a process has ended. One that waits for its parent to take notice has ended too. */
export async function gone(pid: number): Promise<void> {
  await eventually(() => !isRunning(pid), `process ${pid} has ended`)
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  if (process.platform !== 'linux') return true
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}
