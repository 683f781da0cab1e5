import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { needProgram } from './debian.ts'
import { freePort } from './free-port.ts'
import { makeFolder } from './scratch-folder.ts'

const startedWithinMs = 30_000
const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']

/** An nginx of a test's own: its own folder, its own port, gone with the test. */
export class Nginx {
  readonly port: number
  readonly #folder: string
  readonly #process: ChildProcess

  private constructor(port: number, folder: string, child: ChildProcess) {
    this.port = port
    this.#folder = folder
    this.#process = child
  }

  /** `http` returns the content of the `http` block of its configuration. */
  static async start(http: (port: number) => string): Promise<Nginx> {
    const program = needProgram('nginx', ['nginx-light'], ['/usr/sbin'])
    const port = await freePort()
    const folder = makeFolder('nginx')
    const file = path.join(folder, 'nginx.conf')
    const folders = temporary.map((name) => `${name}_temp_path ${path.join(folder, name)};`).join(' ')
    const head = `daemon off; master_process off; pid ${path.join(folder, 'pid')}; error_log /dev/null; events {}`
    writeFileSync(file, `${head}\nhttp { access_log off; ${folders}\n${http(port)}\n}\n`)
    const child = spawn(program, ['-p', folder, '-c', file, '-e', '/dev/null'], { stdio: 'ignore' })
    const nginx = new Nginx(port, folder, child)
    // If this process ends with an error, the server must end with it.
    process.once('exit', nginx.#quit)
    await nginx.#isReady()
    return nginx
  }

  readonly #quit = (): void => void this.#process.kill('SIGKILL')

  async stop(): Promise<void> {
    process.removeListener('exit', this.#quit)
    if (this.#process.exitCode === null) {
      this.#process.kill('SIGTERM')
      await once(this.#process, 'exit')
    }
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #isReady(): Promise<void> {
    const deadline = performance.now() + startedWithinMs
    for (;;) {
      const socket = connect(this.port, '127.0.0.1')
      const isOpen = await once(socket, 'connect').then(
        () => true,
        () => false,
      )
      socket.destroy()
      if (isOpen) return
      if (this.#process.exitCode !== null || performance.now() > deadline) throw new Error('nginx does not start.')
      await pause(20)
    }
  }
}
