/** The runtime of Cloudflare Workers, which is one program: fetched from npm once, and run on the loopback address. */
import { execFileSync, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { ServerProcess } from './server-process.ts'
import { makeFolder, removeFolder } from './scratch-folder.ts'

const version = '1.20260730.1'
const cache = path.resolve('node_modules/.cache/workerd')

/** Where the program is. It takes some seconds and 130 MB, once. Two processes may fetch it at once. */
function workerdProgram(): string {
  const place = path.join(cache, version)
  const program = path.join(place, 'bin/workerd')
  if (existsSync(program)) return program
  mkdirSync(cache, { recursive: true })
  const scratch = mkdtempSync(path.join(cache, '.fetch-'))
  try {
    const name = `workerd-${process.platform}-${process.arch === 'x64' ? '64' : process.arch}`
    const options = { cwd: scratch, stdio: 'pipe', timeout: 300_000 } as const
    execFileSync('npm', ['pack', '--silent', '--fetch-retries=5', `@cloudflare/${name}@${version}`], options)
    execFileSync('tar', ['xzf', `cloudflare-${name}-${version}.tgz`, 'package/bin/workerd'], options)
    keep(path.join(scratch, 'package'), place)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
  return program
}

/** Moves a folder to its place in one step. Another process may have been quicker. */
function keep(folder: string, place: string): void {
  try {
    renameSync(folder, place)
  } catch (error) {
    if (!existsSync(place)) throw error
    cpSync(folder, place, { recursive: true, force: false })
  }
}

/** A worker that is called over HTTP. */
export class Workerd extends ServerProcess {
  readonly url: string
  /** Its output: exceptions of the worker, and unhandled rejections. */
  complaints = ''
  readonly #folder: string

  private constructor(url: string, folder: string) {
    super()
    this.url = url
    this.#folder = folder
  }

  /** Starts a worker of this module, with these compatibility flags. */
  static async start(code: string, flags: readonly string[] = []): Promise<Workerd> {
    const folder = makeFolder('workerd')
    const port = await freePort()
    writeFileSync(path.join(folder, 'worker.js'), code)
    writeFileSync(path.join(folder, 'config.capnp'), configuration(port, flags))
    const worker = new Workerd(`http://127.0.0.1:${port}`, folder)
    const running = spawn(workerdProgram(), ['serve', 'config.capnp'], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    worker.process = running
    for (const stream of [running.stdout, running.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => (worker.complaints += text))
    }
    await eventually(async () => {
      if (running.exitCode !== null) throw new Error(`workerd ended: ${worker.complaints}`)
      return fetch(worker.url, { method: 'HEAD' }).then(
        () => true,
        () => false,
      )
    }, 'workerd')
    worker.complaints = ''
    return worker
  }

  async stop(): Promise<void> {
    await this.kill()
    removeFolder(this.#folder)
  }
}

function configuration(port: number, flags: readonly string[]): string {
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "internet", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = "2026-07-01",
  compatibilityFlags = ${JSON.stringify(flags)},
);
`
}
