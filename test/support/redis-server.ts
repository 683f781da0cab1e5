/** Private Redis servers for tests: real ones, on free ports, with a folder of their own. */
import { execFile, spawn } from 'node:child_process'
import { connect } from 'node:net'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { needProgram } from './debian.ts'
import { freePort } from './free-port.ts'
import { redisCommand } from './redis-command.ts'
import { ServerProcess } from './server-process.ts'
import { makeFolder, removeFolder } from './scratch-folder.ts'

export interface RedisServerOptions {
  /** Lines of redis.conf, by name. */
  readonly settings?: Readonly<Record<string, string>>
  /** Below 32768, by default. */
  readonly port?: number
  /** Environment variables besides those of this process. */
  readonly environment?: Readonly<Record<string, string>>
}

const startedWithinMs = 30_000

export class RedisServer extends ServerProcess {
  readonly port: number
  readonly url: string
  readonly folder = makeFolder('redis')
  readonly #options: RedisServerOptions

  private constructor(port: number, options: RedisServerOptions) {
    super()
    this.port = port
    this.url = `redis://127.0.0.1:${port}`
    this.#options = options
  }

  static async start(options: RedisServerOptions = {}): Promise<RedisServer> {
    const server = new RedisServer(options.port ?? (await freePort()), options)
    await server.start()
    return server
  }

  get socketPath(): string {
    return path.join(this.folder, 'redis.sock')
  }

  get pid(): number {
    return this.process?.pid as number
  }

  /** Starts again after `kill`, on the same port and with what is on disk. */
  async start(): Promise<void> {
    // Named by `npm run test:redis-versions`.
    const program = process.env['REDIS_SERVER'] ?? needProgram('redis-server', ['redis-server'])
    const settings = {
      port: String(this.port),
      bind: '127.0.0.1',
      dir: this.folder,
      unixsocket: this.socketPath,
      save: '',
      appendonly: 'no',
      ...this.#options.settings,
    }
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
    this.process = spawn(program, args, { stdio: 'ignore', env: { ...process.env, ...this.#options.environment } })
    const deadline = Date.now() + startedWithinMs
    while (!(await this.#answers())) {
      if (Date.now() > deadline) throw new Error(`redis-server did not start within ${startedWithinMs} ms.`)
      await pause(10)
    }
  }

  /** One command, or what redis-cli does with options; resolves to what redis-cli prints. */
  async cli(...args: readonly string[]): Promise<string> {
    const hasOptions = args[0]?.startsWith('-') ?? false
    if (!hasOptions) return (await redisCommand(this.port, args)).trimEnd()
    const program = needProgram('redis-cli', ['redis-tools'])
    const { stdout } = await promisify(execFile)(program, ['-p', String(this.port), ...args], { timeout: 30_000 })
    return stdout.trimEnd()
  }

  async stop(): Promise<void> {
    await this.kill()
    removeFolder(this.folder)
  }

  /** Whether the server is up: an error about a missing password counts as an answer, one about loading does not. */
  #answers(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(this.port, '127.0.0.1', () => socket.write('PING\r\n'))
      socket.once('error', () => resolve(false))
      socket.once('close', () => resolve(false))
      socket.once('data', (data) => {
        socket.destroy()
        resolve(!String(data).startsWith('-LOADING'))
      })
    })
  }
}
