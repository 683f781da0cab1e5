/** A MariaDB server of a test's own: its own directory and port, gone with the test. It speaks the MySQL dialect. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import { needProgram } from './debian.ts'
import { freePort } from './free-port.ts'
import { makeFolder } from './scratch-folder.ts'

const startedWithinMs = 60_000

export class MariadbServer {
  readonly port: number
  readonly #folder: string
  readonly #process: ChildProcess

  private constructor(port: number, folder: string, process: ChildProcess) {
    this.port = port
    this.#folder = folder
    this.#process = process
  }

  static async start(): Promise<MariadbServer> {
    const program = needProgram('mariadbd', ['mariadb-server-core'], ['/usr/sbin'])
    const port = await freePort()
    const folder = makeFolder('mariadb')
    mkdirSync(path.join(folder, 'data'))
    const settings = {
      datadir: path.join(folder, 'data'),
      socket: path.join(folder, 'mariadb.sock'),
      'pid-file': path.join(folder, 'mariadb.pid'),
      'bind-address': '127.0.0.1',
      port: String(port),
      'innodb-flush-log-at-trx-commit': '0',
      'innodb-log-file-size': '4M',
    }
    const flags = Object.entries(settings).map(([name, value]) => `--${name}=${value}`)
    // Without grant tables an empty directory will do, and any client may do anything.
    const args = ['--no-defaults', '--skip-grant-tables', ...flags]
    if (process.getuid?.() === 0) args.push('--user=root')
    const server = new MariadbServer(port, folder, spawn(program, args, { stdio: 'ignore' }))
    await server.#isReady()
    return server
  }

  get url(): string {
    return `mysql://root@127.0.0.1:${this.port}`
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      this.#process.kill('SIGKILL')
      await once(this.#process, 'exit')
    }
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #isReady(): Promise<void> {
    const deadline = Date.now() + startedWithinMs
    for (;;) {
      try {
        const connection = await createConnection(this.url)
        await connection.end()
        return
      } catch (error) {
        if (Date.now() > deadline || this.#process.exitCode !== null) throw error
        await pause(50)
      }
    }
  }
}
