import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { historyLog, type HistoryLog } from '../../src/testing/index.ts'
import { deferred } from '../../test/support/deferred.ts'
import { ServerClock } from '../../test/support/server-clock.ts'
import { signalTo } from '../../test/support/signal.ts'
import type { ClientOrder, Complaint, Ended, Rested } from '../children/chaos-client.ts'
import { limitDescriptors } from './descriptors.ts'
import { Resources, type ResourceCall } from './resources.ts'
import type { ChaosStore, WholeCrew } from './store.ts'

const program = path.resolve('.build/prove/children/chaos-client.js')

type Message = { readonly type: 'ready' } | Rested | Ended | Complaint | ResourceCall

const manyByDefault = 50

export interface CrewOptions {
  readonly store: ChaosStore
  readonly folder: string
  readonly processes: number
  readonly ttlMs: number
  /** The longest pause of a worker between two turns. */
  readonly paceMs: number
}

/** A client that rested. */
export interface RestedClient extends Rested {
  readonly name: string
}

interface Member {
  readonly name: string
  readonly child: ChildProcess
  readonly ready: Promise<void>
  readyAt: number
  rested: ReturnType<typeof deferred<Rested>>
  readonly farewell: ReturnType<typeof deferred<Ended>>
  isKilled: boolean
}

/** How long a crew may take to come to rest before its waiters count as forgotten. */
const restWithinMs = 60_000
/** The descriptors that a client has left when it has none: fewer than it uses. */
const fewDescriptors = 20
const usualDescriptors = 1024

/** The client processes of a run: each has a slot, and a process that is killed is followed by another. */
export class Crew implements WholeCrew {
  readonly resources = new Resources()
  /** What must never happen, in words. */
  readonly complaints: string[] = []
  readonly logs: string[] = []
  readonly #options: CrewOptions
  readonly #members: Member[] = []
  readonly #clocks: ServerClock[] = []
  readonly #faults: HistoryLog
  #started = 0

  constructor(options: CrewOptions) {
    this.#options = options
    const file = path.join(options.folder, 'faults.jsonl')
    this.logs.push(file)
    this.#faults = historyLog(file)
  }

  async start(): Promise<void> {
    for (let slot = 0; slot < this.#options.processes; slot += 1) {
      this.#clocks.push(new ServerClock())
      this.#members.push(this.#launch(slot))
    }
    await Promise.all(this.#members.map(({ ready }) => ready))
  }

  get ttlMs(): number {
    return this.#options.ttlMs
  }

  get size(): number {
    return this.#members.length
  }

  kill(slot: number): void {
    const member = this.#at(slot)
    // Written down before it happens: later would claim that the dead still held.
    this.#faults.write({ type: 'crash', client: member.name })
    member.isKilled = true
    member.child.kill('SIGKILL')
  }

  async replace(slot: number): Promise<void> {
    const member = this.#at(slot)
    const { child, isKilled } = member
    if (!isKilled) return
    await exited(child)
    // Another fault may have done it meanwhile.
    if (this.#members[slot] === member) this.#members[slot] = this.#launch(slot)
  }

  killAll(): void {
    for (let slot = 0; slot < this.size; slot += 1) this.kill(slot)
  }

  async ended(): Promise<void> {
    await Promise.all(this.#members.filter(({ isKilled }) => isKilled).map(({ child }) => exited(child)))
  }

  async replaceAll(): Promise<void> {
    await Promise.all(this.#members.map((_member, slot) => this.replace(slot)))
  }

  stop(slot: number): void {
    const { name, child } = this.#at(slot)
    this.#faults.write({ type: 'pause', client: name })
    signalTo(child, 'SIGSTOP')
  }

  goOn(slot: number): void {
    signalTo(this.#at(slot).child, 'SIGCONT')
  }

  /** From now on the client can open nothing more. */
  exhaustDescriptors(slot: number): void {
    // While it starts, it is not ours but Node that would fail.
    if (this.#at(slot).readyAt < Infinity) limitDescriptors(this.#at(slot).child.pid, fewDescriptors)
  }

  restoreDescriptors(slot: number): void {
    limitDescriptors(this.#at(slot).child.pid, usualDescriptors)
  }

  setClock(slot: number, offsetMs: number): void {
    this.#clocks[slot]?.set(offsetMs)
  }

  /** Has every waiter served and no new one begin. Resolves to what each client did. */
  async rest(): Promise<RestedClient[]> {
    await this.#allWithin(({ ready }) => ready, 'ready')
    this.#tell({ type: 'rest' })
    const rested = await this.#allWithin((member) => member.rested.promise, 'at rest')
    return rested.map((found, index) => ({ ...found, name: this.#members[index]?.name ?? '' }))
  }

  work(): void {
    for (const member of this.#members) member.rested = deferred()
    this.#tell({ type: 'go on' })
  }

  async end(): Promise<Ended[]> {
    this.#tell({ type: 'end' })
    return this.#allWithin((member) => member.farewell.promise, 'at its end')
  }

  /** Ends what still runs. */
  dispose(): void {
    for (const { child } of this.#members) child.kill('SIGKILL')
    for (const clock of this.#clocks) clock.remove()
    this.#faults[Symbol.dispose]()
  }

  #at(slot: number): Member {
    const member = this.#members[slot]
    if (member === undefined) throw new Error(`There is no client ${slot}.`)
    return member
  }

  #tell(order: ClientOrder): void {
    for (const { child } of this.#members) if (child.connected) child.send(order, () => {})
  }

  async #allWithin<Value>(promised: (member: Member) => Promise<Value>, what: string): Promise<Value[]> {
    const missing = new Set(this.#members.map(({ name }) => name))
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        const names = [...missing].join(', ')
        reject(new Error([`Not ${what} within ${restWithinMs} ms: ${names}.`, ...this.complaints].join('\n')))
      }, restWithinMs)
    })
    const all = this.#members.map(async (member) => {
      const value = await promised(member)
      missing.delete(member.name)
      return value
    })
    try {
      return await Promise.race([Promise.all(all), late])
    } finally {
      clearTimeout(timer)
    }
  }

  #launch(slot: number): Member {
    const { store, folder, ttlMs, paceMs } = this.#options
    const name = `client-${slot}.${(this.#started += 1)}`
    const log = path.join(folder, `${name}.jsonl`)
    historyLog(log)[Symbol.dispose]()
    this.logs.push(log)
    const env = { ...process.env, ...store.environment, ...this.#clocks[slot]?.environment }
    const child = fork(
      program,
      [store.url(slot), log, name, String(ttlMs), String(paceMs), String(store.manyAtOnce ?? manyByDefault)],
      {
        execArgv: ['--expose-gc', '--enable-source-maps'],
        env,
        stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
      },
    )
    let stderr = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    const ready = deferred()
    const member: Member = {
      name,
      child,
      ready: ready.promise,
      readyAt: Infinity,
      rested: deferred(),
      farewell: deferred(),
      isKilled: false,
    }
    child.on('message', (message: Message) => {
      switch (message.type) {
        case 'ready':
          member.readyAt = monotonicMs()
          ready.resolve()
          break
        case 'rested':
          member.rested.resolve(message)
          break
        case 'ended':
          member.farewell.resolve(message)
          break
        case 'complaint':
          this.complaints.push(message.message)
          break
        case 'resource':
          void this.resources.answer(slot, message).then((answer) => child.connected && child.send(answer, () => {}))
      }
    })
    child.on('exit', (code, signal) => {
      if (member.isKilled || code === 0) return
      this.complaints.push(`${name} ended with ${String(code ?? signal)}: ${stderr}`)
      // The run ends: nobody waits a minute for a client that is gone.
      for (const awaited of [ready, member.rested, member.farewell]) {
        awaited.promise.catch(() => {})
        awaited.reject(new Error(this.complaints.join('\n')))
      }
    })
    return member
  }
}

async function exited(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
}
