import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent, request as sendRequest } from 'node:http'
import path from 'node:path'
import type { Request } from '../../src/core/contract/driver.ts'
import { claimOf, claiming } from './claims.ts'
import { makeFolder, removeFolder } from './scratch-folder.ts'
import { tokenOf } from './tokens.ts'

/** What a hostile tenant can do: see `test/children/hostile-tenant.ts`. */
export type Attack =
  | 'never reading'
  | 'slow bodies'
  | 'bodies without end'
  | 'unread lists'
  | 'flood'
  | 'large batches'
  | 'largest claims'
  | 'waiters'
  | 'floors'
  | 'tiny ttls'
  | 'streams'
  | 'reconnects'

/** Every attack, the cheapest first. */
export const attacks: readonly Attack[] = [
  'never reading',
  'slow bodies',
  'bodies without end',
  'unread lists',
  'flood',
  'large batches',
  'largest claims',
  'waiters',
  'floors',
  'tiny ttls',
  'streams',
  'reconnects',
]

/** A process that may have as many descriptors as the system allows, such as a server with ten thousand connections. */
export function spawnWithDescriptors(args: readonly string[]): ChildProcess {
  return spawn('sh', ['-c', 'ulimit -n "$(ulimit -Hn)"; exec "$@"', 'sh', process.execPath, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** A real `leasehold serve`, with a little memory and two tenants: `hostile` and `victim`. */
export class AbusedServer {
  readonly process: ChildProcess
  readonly #folder = makeFolder('abuse')
  url = ''
  /** What it wrote to its log. */
  log = ''

  private constructor(heapMb: number, options: readonly string[]) {
    const tokens = ['hostile', 'victim'].map((name) => {
      // The victim has a rate of its own, so that its own pace is never what refuses it.
      const rate = name === 'victim' && { rate: { perSecond: 5000, burst: 10_000 } }
      return { name, token: tokenOf(name), namespaces: [name], rights: ['lock', 'read'], ...rate }
    })
    const file = path.join(this.#folder, 'tokens.json')
    writeFileSync(file, JSON.stringify(tokens), { mode: 0o600 })
    const words = ['serve', '--store', 'memory:', '--port', '0', '--tokens', file, ...options]
    this.process = spawnWithDescriptors([`--max-old-space-size=${heapMb}`, path.resolve('dist/node/cli.js'), ...words])
    this.process.stdout?.resume()
  }

  /** Starts one, and resolves when it listens. */
  static async start(heapMb: number, options: readonly string[] = []): Promise<AbusedServer> {
    const server = new AbusedServer(heapMb, options)
    await new Promise<void>((resolve, reject) => {
      server.process.once('exit', () => reject(new Error(`The server ended: ${server.log}`)))
      server.process.stderr?.setEncoding('utf8').on('data', (text: string) => {
        server.log += text
        ;[, server.url = ''] = /serving .* on (http:[^\s,]+)/.exec(server.log) ?? []
        if (server.url !== '') resolve()
      })
    })
    return server
  }

  get isRunning(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null
  }

  /** The memory of the process; NaN if it has ended. */
  get rssMb(): number {
    return this.#memory('VmRSS')
  }

  /** The most memory that the process has had. */
  get rssPeakMb(): number {
    return this.#memory('VmHWM')
  }

  /** How many descriptors the process has, each connection being one. */
  get descriptors(): number {
    return readdirSync(`/proc/${this.process.pid}/fd`).length
  }

  /** Starts a hostile tenant, and resolves when it has begun. */
  async attack(attack: Attack): Promise<HostileTenant> {
    const tenant = new HostileTenant(attack, this.url)
    await tenant.begun
    return tenant
  }

  async stop(): Promise<void> {
    if (this.isRunning) {
      this.process.kill('SIGKILL')
      await once(this.process, 'exit')
    }
    removeFolder(this.#folder)
  }

  #memory(field: string): number {
    try {
      const [, kb] =
        new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${this.process.pid}/status`, 'utf8')) ?? []
      return kb === undefined ? Number.NaN : Number(kb) / 1024
    } catch {
      return Number.NaN
    }
  }
}

/** A process that attacks a server. */
export class HostileTenant {
  readonly #process: ChildProcess
  /** What it has done, as it says. */
  done = ''
  readonly begun: Promise<void>

  constructor(attack: Attack, url: string) {
    this.#process = spawnWithDescriptors(['.build/test/children/hostile-tenant.js', attack, url, tokenOf('hostile')])
    this.#process.stderr?.pipe(process.stderr)
    this.begun = new Promise((resolve, reject) => {
      this.#process.once('exit', () => reject(new Error(`The tenant of ${attack} ended.`)))
      this.#process.stdout?.setEncoding('utf8').on('data', (text: string) => {
        if (text.includes('attacking')) resolve()
        this.done = text.trim().split('\n').at(-1) ?? ''
      })
    })
    this.begun.catch(() => {})
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    this.#process.kill('SIGKILL')
    await once(this.#process, 'exit')
  }
}

/** What became of a tenant's work. */
export interface Worked {
  readonly succeeded: number
  readonly failed: readonly string[]
  /** Of each pair of acquire and release. */
  readonly latenciesMs: readonly number[]
}

/** A tenant that takes and releases locks one after the other, while `goesOn`. */
export async function workAsVictim(url: string, goesOn: (pairs: number) => boolean, pauseMs = 5): Promise<Worked> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const failed: string[] = []
  const latenciesMs: number[] = []
  let succeeded = 0
  for (let pairs = 0; goesOn(pairs); pairs += 1) {
    const claim = claimOf(`victim/named:${pairs % 50}`, { ttlMs: 30_000, wait: false })
    const startedAt = performance.now()
    try {
      const held = await post(agent, url, [claiming(claim)])
      await post(agent, url, [{ op: 'release', key: claim.key, id: claim.id }])
      if (!held.includes('"held"')) throw new Error(held)
      succeeded += 1
      latenciesMs.push(performance.now() - startedAt)
    } catch (error) {
      failed.push(String(error).slice(0, 200))
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
  agent.destroy()
  return { succeeded, failed, latenciesMs }
}

/** Only a server that hangs takes this long. */
const answerWithinMs = 10_000

function post(agent: Agent, url: string, requests: readonly Request[]): Promise<string> {
  const body = JSON.stringify({ requests })
  const headers = {
    authorization: `Bearer ${tokenOf('victim')}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  }
  return new Promise((resolve, reject) => {
    const call = sendRequest(`${url}/v1/requests`, { agent, method: 'POST', headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece))
      response.once('end', () => (response.statusCode === 200 ? resolve(text) : reject(new Error(text))))
    })
    call.setTimeout(answerWithinMs, () => call.destroy(new Error('no answer')))
    call.once('error', reject)
    call.end(body)
  })
}
