import { fork, spawn, type ChildProcess, type SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { afterEach } from 'vitest'
import type { Claim, Request, ClaimStatus, Notification } from '../../src/core/contract/driver.ts'
import { eventually } from '../support/eventually.ts'

const children = new Set<ChildProcess>()

/** Ends, after each test, the processes it started. */
export function endProcessesAfterEach(): void {
  afterEach(async () => {
    for (const child of children) await end(child)
    children.clear()
  })
}

function builtChild(name: string): string {
  return path.resolve('.build/test/children', `${name}.js`)
}

function keep<Child extends ChildProcess>(child: Child): Child {
  children.add(child)
  return child
}

/** Kills a process as `kill -9` does and waits until it is gone. */
export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

interface Message {
  readonly ready?: boolean
  readonly call?: number
  readonly statuses?: readonly ClaimStatus[]
  readonly error?: string
  readonly received?: { readonly key: string; readonly id: string; readonly notification: Notification }
}

/** A driver in a process of its own. */
export class ClientProcess {
  readonly child: ChildProcess
  readonly received: NonNullable<Message['received']>[] = []
  readonly #calls = new Map<number, (message: Message) => void>()
  #ready = false
  #lastCall = 0

  private constructor(file: string, program: string, how: readonly string[]) {
    this.child = keep(fork(builtChild('sqlite-client'), [file], { execPath: program, execArgv: [...how] }))
    this.child.on('message', (message: Message) => {
      if (message.ready === true) this.#ready = true
      if (message.received !== undefined) this.received.push(message.received)
      if (message.call !== undefined) this.#calls.get(message.call)?.(message)
    })
  }

  /** `program`: another version of Node, or another runtime, and `how`: its flags before the file that it runs. */
  static async start(file: string, program = process.execPath, how: readonly string[] = []): Promise<ClientProcess> {
    const client = new ClientProcess(file, program, how)
    await eventually(() => client.#ready, 'a client process')
    return client
  }

  async ask(request: Request): Promise<ClaimStatus> {
    const call = (this.#lastCall += 1)
    const message = await new Promise<Message>((resolve) => {
      this.#calls.set(call, resolve)
      this.child.send({ call, requests: [request] })
    })
    const status = message.statuses?.[0]
    if (status === undefined) throw new Error(message.error ?? 'no answer')
    return status
  }

  claim(claim: Claim): Promise<ClaimStatus> {
    return this.ask({ op: 'claim', claim })
  }

  release({ key, id }: Claim): Promise<ClaimStatus> {
    return this.ask({ op: 'release', key, id })
  }
}

/** A process that runs one of test/children to its end. */
export function run(name: string, args: readonly string[], options: SpawnOptions = {}): RunningChild {
  return new RunningChild(keep(spawn(process.execPath, [builtChild(name), ...args], { stdio: 'pipe', ...options })))
}

/** A child process and its output so far. */
export class RunningChild {
  readonly child: ChildProcess
  output = ''
  errors = ''
  readonly #closed: Promise<unknown>

  constructor(child: ChildProcess) {
    this.child = child
    this.#closed = once(child, 'close')
    child.stdout?.on('data', (text: Buffer) => (this.output += text.toString()))
    child.stderr?.on('data', (text: Buffer) => (this.errors += text.toString()))
  }

  /** Resolves when the child has said that it is ready. */
  async ready(): Promise<void> {
    await eventually(() => this.output.includes('ready'), `readiness (${this.errors})`)
  }

  /** Resolves with the exit code, once all that it wrote has been read. */
  async ended(): Promise<number | null> {
    await this.#closed
    return this.child.exitCode
  }
}
