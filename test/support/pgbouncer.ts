import { spawn, type ChildProcess } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { needProgram } from './debian.ts'
import { freePort } from './free-port.ts'
import { giveToPostgres } from './postgres-server.ts'
import { makeFolder } from './scratch-folder.ts'

/** A PgBouncer in front of a server: every transaction may get another of its few sessions. */
export class PgBouncer {
  readonly port: number
  readonly #directory: string
  readonly #process: ChildProcess

  private constructor(port: number, directory: string, child: ChildProcess) {
    this.port = port
    this.#directory = directory
    this.#process = child
  }

  static async start(
    serverPort: number,
    mode: 'transaction' | 'session',
    { sessions = 4, roundRobin = false }: { readonly sessions?: number; readonly roundRobin?: boolean } = {},
  ): Promise<PgBouncer> {
    const port = await freePort()
    const directory = makeFolder('pgbouncer')
    const file = path.join(directory, 'pgbouncer.ini')
    writeFileSync(
      file,
      `[databases]
postgres = host=127.0.0.1 port=${serverPort} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = ${sessions}
server_round_robin = ${roundRobin ? 1 : 0}
`,
    )
    giveToPostgres(directory)
    giveToPostgres(file)
    const program = needProgram('pgbouncer', ['pgbouncer'], ['/usr/sbin'])
    const asUser = userInfo().uid === 0 ? ['-u', 'postgres'] : []
    const child = spawn(program, ['-q', ...asUser, file], { stdio: 'ignore' })
    const bouncer = new PgBouncer(port, directory, child)
    // If this process ends with an error, the server must end with it.
    process.once('exit', bouncer.#quit)
    await bouncer.#isReady()
    return bouncer
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`
  }

  readonly #quit = (): void => void this.#process.kill('SIGKILL')

  async stop(): Promise<void> {
    process.removeListener('exit', this.#quit)
    if (this.#process.exitCode === null) {
      const ended = new Promise((resolve) => this.#process.once('exit', resolve))
      this.#process.kill('SIGKILL')
      await ended
    }
    rmSync(this.#directory, { recursive: true, force: true })
  }

  async #isReady(): Promise<void> {
    const deadline = Date.now() + 30_000
    for (;;) {
      const client = new Client({ connectionString: this.url })
      client.on('error', () => {})
      try {
        await client.connect()
        await client.end()
        return
      } catch (error) {
        if (Date.now() > deadline) throw error
        await pause(20)
      }
    }
  }
}
