/**
 * A PostgreSQL server of a test's own: its own directory, its own port, gone with the test. The server refuses to run as
 * root, so its programs are run as the user postgres then.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { appendFileSync, chownSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, DatabaseError, type QueryResult } from 'pg'
import { needProgram } from './debian.ts'
import { freePort } from './free-port.ts'
import { makeFolder } from './scratch-folder.ts'

export interface PostgresServerOptions {
  /** Settings of postgresql.conf. */
  readonly settings?: Readonly<Record<string, string | number>>
  /** Waits for the disk, as a real one does. Default: false, since tests only need it when they pull the plug. */
  readonly durable?: boolean
  /** Environment variables besides those of this process. */
  readonly environment?: Readonly<Record<string, string>>
}

const startMs = 60_000

/** A name for a schema that no other test uses. */
export function freshSchema(prefix: string): string {
  return `${prefix}_${randomBytes(6).toString('hex')}`
}

export class PostgresServer {
  readonly port: number
  readonly directory: string
  readonly #settings: Readonly<Record<string, string | number>>
  readonly #environment: Readonly<Record<string, string>>
  #process: ChildProcess | undefined
  #client: Client | undefined

  private constructor(directory: string, port: number, { settings = {}, environment = {} }: PostgresServerOptions) {
    this.directory = directory
    this.port = port
    this.#settings = settings
    this.#environment = environment
  }

  /** A fresh server, ready for connections. */
  static async start(options: PostgresServerOptions = {}): Promise<PostgresServer> {
    const server = await PostgresServer.#prepare(options)
    asPostgres('initdb', ['-D', server.directory, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync'])
    await server.resume()
    return server
  }

  /** A standby that follows this server, which is stopped for a moment to be copied. */
  async startStandby(): Promise<PostgresServer> {
    const standby = await PostgresServer.#prepare({ settings: this.#settings, environment: this.#environment })
    await this.stop('fast')
    execFileSync('cp', ['-a', this.directory, standby.directory])
    const primary = `primary_conninfo = 'host=127.0.0.1 port=${this.port} user=postgres'\n`
    appendFileSync(path.join(standby.directory, 'postgresql.auto.conf'), primary)
    writeFileSync(path.join(standby.directory, 'standby.signal'), '')
    await this.resume()
    await standby.resume()
    return standby
  }

  /** The major version. */
  async version(): Promise<number> {
    const [row] = await this.sql(`select current_setting('server_version_num')::integer / 10000 as major`)
    return row?.['major'] as number
  }

  static async #prepare(options: PostgresServerOptions): Promise<PostgresServer> {
    const home = makeFolder('postgres')
    giveToPostgres(home)
    const fast = options.durable === true ? {} : { fsync: 'off', synchronous_commit: 'off' }
    const settings = { max_connections: 100, listen_addresses: '127.0.0.1', ...fast, ...options.settings }
    return new PostgresServer(path.join(home, 'data'), await freePort(), { ...options, settings })
  }

  get isRunning(): boolean {
    return this.#process !== undefined && this.#process.exitCode === null && this.#process.signalCode === null
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`
  }

  /** Starts the server again with its data. */
  async resume(): Promise<void> {
    const settings = { port: this.port, unix_socket_directories: path.dirname(this.directory), ...this.#settings }
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const { file, prefix } = programAsPostgres('postgres')
    const env = { ...process.env, ...this.#environment }
    this.#process = spawn(file, [...prefix, '-D', this.directory, ...flags], { stdio: 'ignore', env })
    // If this process ends with an error, the server must end with it.
    process.once('exit', this.#quit)
    await this.#isReady()
  }

  /** Stops the server: `fast` ends its connections, `immediate` is a crash. */
  async stop(how: 'fast' | 'immediate' = 'fast'): Promise<void> {
    const child = this.#process
    await this.#disconnect()
    if (child === undefined || child.exitCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    this.#signal(how === 'fast' ? 'SIGINT' : 'SIGQUIT')
    await ended
    process.removeListener('exit', this.#quit)
    this.#process = undefined
  }

  /** Copies the data directory, while the server is stopped. */
  copyData(copy: string): void {
    execFileSync('cp', ['-a', this.directory, copy])
  }

  /** Puts a copy of a data directory in the place of this server's, while it is stopped. */
  replaceData(copy: string): void {
    rmSync(this.directory, { recursive: true, force: true })
    execFileSync('cp', ['-a', copy, this.directory])
  }

  /** Stops the server and throws its data away. */
  async destroy(): Promise<void> {
    await this.stop('immediate')
    rmSync(path.dirname(this.directory), { recursive: true, force: true })
  }

  /** Runs statements on a connection of their own, and returns the rows of the last one. */
  async sql(text: string, values?: unknown[]): Promise<Record<string, unknown>[]> {
    this.#client ??= await connected(this.url)
    try {
      const result = (await this.#client.query(text, values)) as QueryResult | QueryResult[]
      const last = Array.isArray(result) ? result.at(-1) : result
      return (last?.rows ?? []) as Record<string, unknown>[]
    } catch (error) {
      if (!(error instanceof DatabaseError)) await this.#disconnect()
      throw error
    }
  }

  async #disconnect(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => {})
  }

  readonly #quit = (): void => void this.#process?.kill('SIGQUIT')

  /** Signals the postmaster by its own pid: the process that was started may only be `setpriv`. */
  #signal(signal: NodeJS.Signals): void {
    const pid = Number(readFileSync(path.join(this.directory, 'postmaster.pid'), 'utf8').split('\n')[0])
    process.kill(pid, signal)
  }

  async #isReady(): Promise<void> {
    const deadline = Date.now() + startMs
    for (;;) {
      try {
        await this.sql('select 1')
        return
      } catch (error) {
        if (Date.now() > deadline || this.#process?.exitCode !== null) throw error
        await pause(25)
      }
    }
  }
}

async function connected(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Where Debian keeps the programs of each version. */
function debianFolders(): string[] {
  try {
    return readdirSync('/usr/lib/postgresql')
      .toSorted((a, b) => Number(a) - Number(b))
      .map((version) => `/usr/lib/postgresql/${version}/bin`)
  } catch {
    return []
  }
}

/** The path of one of the server's programs: of the version in POSTGRES_PROGRAMS, or the newest that is installed. */
function findServerProgram(name: string): string {
  const chosen = process.env['POSTGRES_PROGRAMS']
  // Installing it also makes the user postgres.
  if (chosen === undefined || userInfo().uid === 0) needProgram('initdb', ['postgresql'], debianFolders())
  return needProgram(name, ['postgresql'], chosen === undefined ? debianFolders() : [chosen])
}

/** How to run one of the server's programs, as the user postgres if we are root. */
export function programAsPostgres(name: string): { file: string; prefix: string[] } {
  const program = findServerProgram(name)
  if (userInfo().uid !== 0) return { file: program, prefix: [] }
  // Becomes the program, so that its process is our child.
  return { file: 'setpriv', prefix: ['--reuid=postgres', '--regid=postgres', '--init-groups', program] }
}

function asPostgres(name: string, args: readonly string[]): void {
  const { file, prefix } = programAsPostgres(name)
  execFileSync(file, [...prefix, ...args], { stdio: 'ignore', cwd: '/' })
}

/** Lets the user postgres write to a file or directory of ours, if that is who runs the server. */
export function giveToPostgres(file: string): void {
  if (userInfo().uid !== 0) return
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  findServerProgram('initdb')
  chownSync(file, id('-u'), id('-g'))
}
