/** A MariaDB server of a test's own: its own directory and port, gone with the test. It speaks the MySQL dialect. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createConnection, type Connection } from 'mysql2/promise'
import { needProgram } from './debian.ts'
import { freePort } from './free-port.ts'
import { makeFolder } from './scratch-folder.ts'

const startedWithinMs = 60_000

/** Another program than Debian's MariaDB, that takes the same options. */
export interface SqlProgram {
  readonly path: string
  /** Options of every start. */
  readonly flags: readonly string[]
  /** Makes what an empty folder of data lacks. */
  readonly prepare: (dataFolder: string) => void
}

interface ServerStart {
  /** Whether it is to be killed and started again. */
  readonly isToRestart?: boolean
  /** The user that runs it. @default the one who runs the tests */
  readonly owner?: string
  readonly program?: SqlProgram
  readonly environment?: Readonly<Record<string, string>>
}

export class MariadbServer {
  readonly port: number
  readonly #folder: string
  readonly #settings: Readonly<Record<string, string>>
  readonly #owner: string | undefined
  readonly #program: SqlProgram
  readonly #environment: Readonly<Record<string, string>>
  #process: ChildProcess

  private constructor(
    port: number,
    folder: string,
    settings: Readonly<Record<string, string>>,
    { owner, program = debianMariadb(), environment = {} }: ServerStart,
  ) {
    this.port = port
    this.#folder = folder
    this.#settings = settings
    this.#owner = owner
    this.#program = program
    this.#environment = environment
    program.prepare(this.dataFolder)
    if (owner !== undefined) {
      // Where the server is not ours, its folders are its own.
      chmodSync(folder, 0o755)
      execFileSync('chown', ['-R', owner, folder])
    }
    this.#process = this.#spawn()
  }

  /** `settings` are options of the server, by name. */
  static async start(settings: Readonly<Record<string, string>> = {}, start: ServerStart = {}): Promise<MariadbServer> {
    const port = await freePort()
    const folder = makeFolder('mariadb')
    const server = new MariadbServer(port, folder, settings, start)
    await server.#isReady()
    // What the first start makes outlives a crash only once it has been shut down.
    if (start.isToRestart === true) await server.restart('SIGTERM')
    await server.query('create database if not exists test')
    return server
  }

  get dataFolder(): string {
    return path.join(this.#folder, 'data')
  }

  /** Without a database. */
  get url(): string {
    return `mysql://root@127.0.0.1:${this.port}`
  }

  /** Of the database `test`. */
  get database(): string {
    return `${this.url}/test`
  }

  /** Runs statements, each by itself, on a connection of their own. The rows of the last. */
  async query(...statements: readonly string[]): Promise<readonly Readonly<Record<string, unknown>>[]> {
    return this.connected(async (connection) => {
      let rows: unknown = []
      for (const sql of statements) [rows] = await connection.query(sql)
      return Array.isArray(rows) ? (rows as Readonly<Record<string, unknown>>[]) : []
    })
  }

  async connected<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> {
    const connection = await createConnection(this.url)
    try {
      return await work(connection)
    } finally {
      await connection.end()
    }
  }

  /** Ends every session but the one that does it. */
  async endConnections(): Promise<void> {
    await this.connected(async (connection) => {
      const [rows] = await connection.query(
        "select id from information_schema.processlist where id <> connection_id() and command <> 'Daemon'",
      )
      for (const { id } of rows as { id: number }[]) await connection.query(`kill ${id}`).catch(() => {})
    })
  }

  /** Stops and continues the process. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#process.kill(signal)
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    this.#process.kill(signal)
    await once(this.#process, 'exit')
  }

  /** Starts it again, once it was killed. */
  async resume(): Promise<void> {
    this.#process = this.#spawn()
    await this.#isReady()
  }

  /** Ends it, by default as a crash does, and starts it again on what it had stored. */
  async restart(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.kill(signal)
    await this.resume()
  }

  async stop(): Promise<void> {
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #spawn(): ChildProcess {
    const settings = {
      datadir: this.dataFolder,
      socket: path.join(this.#folder, 'mariadb.sock'),
      'pid-file': path.join(this.#folder, 'mariadb.pid'),
      'bind-address': '127.0.0.1',
      port: String(this.port),
      'innodb-flush-log-at-trx-commit': '0',
      ...this.#settings,
    }
    const flags = Object.entries(settings).map(([name, value]) => `--${name}=${value}`)
    const args = ['--no-defaults', ...this.#program.flags, ...flags]
    if (process.getuid?.() === 0) args.push(`--user=${this.#owner ?? 'root'}`)
    return spawn(this.#program.path, args, { stdio: 'ignore', env: { ...process.env, ...this.#environment } })
  }

  async #isReady(): Promise<void> {
    const deadline = Date.now() + startedWithinMs
    for (;;) {
      try {
        await this.query('select 1')
        return
      } catch (error) {
        if (Date.now() > deadline || this.#process.exitCode !== null) throw error
        await pause(50)
      }
    }
  }
}

function debianMariadb(): SqlProgram {
  return {
    path: needProgram('mariadbd', ['mariadb-server-core'], ['/usr/sbin']),
    // Without grant tables an empty directory will do, and any client may do anything.
    flags: ['--skip-grant-tables', '--innodb-log-file-size=4M'],
    // A Galera node keeps tables of its own there.
    prepare: (dataFolder) => mkdirSync(path.join(dataFolder, 'mysql'), { recursive: true }),
  }
}
