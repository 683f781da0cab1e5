/** Private MongoDB servers for tests: real ones, on free ports, with a folder of their own; alone, or three as a set. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { MongoClient } from 'mongodb'
import { freePort } from './free-port.ts'
import { mongodProgram } from './mongod-program.ts'
import { signalTo } from './signal.ts'
import { makeFolder, removeFolder } from './scratch-folder.ts'

/** The very first start also creates the wine prefix. */
const startedWithinMs = 120_000
/** Later starts take two seconds, or hang. On a machine with much other work they take longer: each try has twice the time. */
const startedAgainWithinMs = 20_000
/**
 * Clients poll the server's state instead of streaming it: the Windows build crashes, at times, when a client
 * disconnects while it is being answered.
 */
export const polling = 'serverMonitoringMode=poll'
/** How often a server may end by itself before that is an error. */
const restartsMax = 40
const electedWithinMs = 60_000

const launched = new Set<MongoServer>()
/** How often servers have ended by themselves. */
let falls = 0

/** The same, including servers that have crashed and were not noticed yet. */
export function fallsSoFar(): number {
  return falls + [...launched].filter((server) => server.hasFallenOver).length
}

/** Finds the servers that hang, and starts them again. */
export async function lookAfterServers(): Promise<void> {
  await Promise.all([...launched].map((server) => server.lookAfter()))
}

export class MongoServer {
  readonly port: number
  readonly url: string
  readonly folder = makeFolder('mongo')
  readonly #settings: Readonly<Record<string, string>>
  #process: ChildProcess | undefined
  #restarts = 0
  #hasRun = false

  private constructor(port: number, settings: Readonly<Record<string, string>>) {
    this.port = port
    this.url = `mongodb://127.0.0.1:${port}/?directConnection=true&${polling}`
    this.#settings = settings
  }

  static async start(settings: Readonly<Record<string, string>> = {}): Promise<MongoServer> {
    const server = new MongoServer(await freePort(), settings)
    await server.start()
    return server
  }

  /** Starts again after `kill`, on the same port and with what is on disk. */
  async start(): Promise<void> {
    this.#launch()
    // If this process ends with an error, the server must end with it.
    process.once('exit', this.#quit)
    const deadline = Date.now() + startedWithinMs
    let withinMs = this.#hasRun ? startedAgainWithinMs : Infinity
    let hangsFrom = Date.now() + withinMs
    while (!(await this.#answers())) {
      if (this.#restarts > restartsMax || Date.now() > deadline) {
        throw new Error(`mongod did not start:\n${this.#lastWords()}`)
      }
      if (Date.now() > hangsFrom) {
        await this.#launchAgain()
        withinMs *= 2
        hangsFrom = Date.now() + withinMs
      }
      await pause(50)
    }
    this.#hasRun = true
  }

  /** Starts a server again that hung during its start. */
  async #launchAgain(): Promise<void> {
    falls += 1
    this.#restarts += 1
    console.error(`mongod on port ${this.port} does not start, once more:\n${this.#lastWords()}`)
    await this.kill()
    this.#launch()
    process.once('exit', this.#quit)
  }

  #launch(): void {
    const { file, prefix, environment, folderName } = mongodProgram()
    const settings = {
      dbpath: folderName(this.folder),
      logpath: folderName(this.#log),
      port: String(this.port),
      bind_ip: '127.0.0.1',
      wiredTigerCacheSizeGB: '0.25',
      ...this.#settings,
    }
    const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
    const parameters = ['ttlMonitorSleepSecs=5', 'diagnosticDataCollectionEnabled=false']
    const args = [...prefix(this.folder), ...flags, ...parameters.flatMap((parameter) => ['--setParameter', parameter])]
    rmSync(this.#log, { force: true })
    const child = spawn(file, args, { stdio: 'ignore', env: { ...process.env, ...environment } })
    this.#process = child
    launched.add(this)
    const watch = setInterval(() => this.hasFallenOver && child.kill('SIGKILL'), 250).unref()
    child.once('exit', (code) => {
      clearInterval(watch)
      launched.delete(this)
      if (code === null && !this.hasFallenOver) return
      falls += 1
      this.#restarts += 1
      console.error(`mongod on port ${this.port} fell over:\n${this.#lastWords()}`)
      if (this.#restarts <= restartsMax) this.#launch()
    })
  }

  /**
   * The Windows build crashes now and then, where it throws exceptions (two inserts of one key) or was stopped and goes
   * on, and may then hang instead of ending: what a supervisor is for. Its log begins anew at each start.
   */
  get hasFallenOver(): boolean {
    return existsSync(this.#log) && readFileSync(this.#log).includes('Unhandled exception')
  }

  /** Restarts a server that hangs, as a whole or in one of its threads: its log does not always say so. */
  async lookAfter(): Promise<void> {
    if (this.hasFallenOver) return
    const stuck = await this.#stuckOperations()
    if (stuck?.length === 0) return
    falls += 1
    console.error(`mongod on port ${this.port} hangs: ${JSON.stringify(stuck ?? 'no answer')}\n${this.#lastWords()}`)
    await this.kill()
    await this.start()
  }

  /** Ends it as a crash would. */
  async kill(): Promise<void> {
    const running = this.#process
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return
    running.kill('SIGKILL')
    await once(running, 'exit')
    process.removeListener('exit', this.#quit)
  }

  /** Stops it in its tracks: connections stay, nothing is answered. */
  freeze(): void {
    signalTo(this.#process, 'SIGSTOP')
  }

  thaw(): void {
    signalTo(this.#process, 'SIGCONT')
  }

  /** Ends it and throws its data away. */
  async stop(): Promise<void> {
    this.#restarts = restartsMax
    await this.kill()
    removeFolder(this.folder)
  }

  get #log(): string {
    return path.join(this.folder, 'mongod.log')
  }

  /** The end of its log, for the error message. */
  #lastWords(): string {
    if (!existsSync(this.#log)) return '(no log)'
    const lines = readFileSync(this.#log, 'utf8').trimEnd().split('\n')
    const fatal = lines.filter((line) => line.includes('"s":"F"'))
    return [...fatal.slice(0, 3), ...lines.slice(-3)].join('\n').slice(0, 4000)
  }

  readonly #quit = (): void => void this.#process?.kill('SIGKILL')

  /** Writes that have taken seconds; normal ones take less than a tenth. Undefined if the server does not answer. */
  async #stuckOperations(): Promise<unknown[] | undefined> {
    const isWrite = { $or: ['insert', 'update', 'delete', 'findAndModify'].map(commandNamed) }
    const pipeline = [{ $currentOp: {} }, { $match: { active: true, secs_running: { $gte: 2 }, ...isWrite } }]
    return onServer(this.url, (client) => client.db('admin').aggregate(pipeline).toArray()).catch(() => undefined)
  }

  async #answers(): Promise<boolean> {
    try {
      await onServer(this.url, (client) => client.db('admin').command({ ping: 1 }))
      return true
    } catch {
      return false
    }
  }
}

/** Three servers that keep the same data, of which one at a time takes writes. */
export class MongoReplicaSet {
  readonly servers: readonly MongoServer[]
  readonly url: string

  private constructor(servers: readonly MongoServer[]) {
    this.servers = servers
    const hosts = servers.map(({ port }) => `127.0.0.1:${port}`).join(',')
    this.url = `mongodb://${hosts}/?replicaSet=rs&${polling}&heartbeatFrequencyMS=500`
  }

  static async start(): Promise<MongoReplicaSet> {
    // The first makes what the others need, too.
    const servers = [await MongoServer.start(setSettings)]
    servers.push(...(await Promise.all([MongoServer.start(setSettings), MongoServer.start(setSettings)])))
    const set = new MongoReplicaSet(servers)
    const members = servers.map(({ port }, index) => ({ _id: index, host: `127.0.0.1:${port}` }))
    await onServer(servers[0]?.url ?? '', (client) =>
      client.db('admin').command({ replSetInitiate: { _id: 'rs', members, settings: impatient } }),
    )
    await set.primary()
    return set
  }

  /** Resolves with the primary, once there is one. `not`: a server that must have stepped down. */
  async primary(not?: MongoServer): Promise<MongoServer> {
    const deadline = Date.now() + electedWithinMs
    for (;;) {
      for (const server of this.servers) {
        if (server === not) continue
        const { isWritablePrimary } = await onServer(server.url, (client) =>
          client.db('admin').command({ hello: 1 }),
        ).catch(() => ({ isWritablePrimary: false }))
        if (isWritablePrimary === true) return server
      }
      if (Date.now() > deadline) throw new Error(`No primary was elected within ${electedWithinMs} ms.`)
      await pause(50)
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()))
  }
}

function commandNamed(name: string): Record<string, unknown> {
  return { [`command.${name}`]: { $exists: true } }
}

const setSettings = { replSet: 'rs', oplogSize: '64' }

/** Elections start seconds after a member freezes, not after the usual quarter of a minute. */
const impatient = {
  electionTimeoutMillis: 1500,
  heartbeatIntervalMillis: 300,
  heartbeatTimeoutSecs: 1,
  catchUpTimeoutMillis: 500,
}

/** One command on one server, by a connection of its own. */
async function onServer<Result>(url: string, work: (client: MongoClient) => Promise<Result>): Promise<Result> {
  const client = new MongoClient(url, {
    serverSelectionTimeoutMS: 2000,
    connectTimeoutMS: 2000,
    socketTimeoutMS: 20_000,
  })
  try {
    return await work(client)
  } finally {
    await client.close()
  }
}
