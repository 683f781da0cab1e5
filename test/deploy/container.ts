import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { CommandLine } from '../integration/cli-process.ts'
import { needProgram } from '../support/debian.ts'
import { eventually } from '../support/eventually.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

/** How a process is started in a container. */
export interface Run {
  readonly argv: readonly string[]
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  /** Numbers of user and group; root if absent. */
  readonly user?: string
  /** As `docker run --read-only`. */
  readonly isReadOnly?: boolean
  /** Absolute paths of the container, which stay writable. */
  readonly volumes?: readonly string[]
  /** Whether it may reach what the machine reaches, and what the caller of npm is known by. */
  readonly isOnline?: boolean
}

/** Folders of the machine: our container has no system of its own. */
const shared = ['usr', 'etc', 'proc', 'dev', 'sys']
const searchPath = '/opt/node/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** To mount, to bring a network up, and to look into a process of another user, by their numbers in Linux. */
const capabilities = { CAP_SYS_ADMIN: 21n, CAP_NET_ADMIN: 12n, CAP_SYS_PTRACE: 19n }

/** Why this machine cannot run containers; undefined if it can. */
export function complaintAboutContainers(): string | undefined {
  if (process.platform !== 'linux') return 'containers need Linux'
  const [, effective = '0'] = /^CapEff:\s+(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
  const missing = Object.entries(capabilities).filter(([, bit]) => ((BigInt(`0x${effective}`) >> bit) & 1n) === 0n)
  if (missing.length > 0) return `containers need ${missing.map(([name]) => name).join(', ')}`
  needProgram('ip', ['iproute2'])
  return undefined
}

/**
 * A folder as the root of processes, with mounts and a network of its own: what an image is to Docker, without Docker. Ports are
 * free in it, and users and read-only files are real.
 */
export class Container {
  readonly root = makeFolder('image')
  readonly #started: CommandLine[] = []

  constructor() {
    chmodSync(this.root, 0o755)
    for (const name of [...shared, 'opt/node', 'tmp', 'run/secrets', `.${homedir()}`]) {
      mkdirSync(path.join(this.root, name), { recursive: true })
    }
    execFileSync('sh', ['-c', 'for each in bin lib lib64 sbin; do ln -s "usr/$each" "$1/$each"; done', 'sh', this.root])
  }

  /** The place of one of the container's absolute paths on this machine. */
  at(file: string): string {
    return path.join(this.root, file)
  }

  /** Writes a file into the container. */
  write(file: string, text: string, mode: number, user = 0, group = 0): void {
    mkdirSync(path.dirname(this.at(file)), { recursive: true })
    rmSync(this.at(file), { force: true })
    writeFileSync(this.at(file), text)
    chownSync(this.at(file), user, group)
    chmodSync(this.at(file), mode)
  }

  start(run: Run): CommandLine {
    const mounts = [
      'mount --bind "$root" "$root"',
      ...shared.map((name) => `mount --rbind "/${name}" "$root/${name}"`),
      'mount --bind "$node" "$root/opt/node"',
      ...(run.isOnline === true ? [`mount --bind "${homedir()}" "$root${homedir()}"`] : ['ip link set lo up']),
      ...(run.volumes ?? []).map((volume) => `mount --bind "$root${volume}" "$root${volume}"`),
      ...(run.isReadOnly === true ? ['mount -o remount,bind,ro "$root"'] : []),
    ]
    const script = `root=$1 node=$2; shift 2; ${mounts.join('; ')}; exec chroot "$root" "$@"`
    const namespaces = run.isOnline === true ? ['--mount'] : ['--mount', '--net']
    const prefix = path.dirname(path.dirname(process.execPath))
    const words = [...namespaces, 'sh', '-euc', script, 'sh', this.root, prefix, ...inside(run)]
    const started = new CommandLine('unshare', words, { cwd: '/', env: process.env })
    this.#started.push(started)
    return started
  }

  /** Runs a command beside a process that was started, as `docker exec` does. */
  exec(beside: CommandLine, run: Run): { readonly code: number | null; readonly output: string } {
    const target = ['--target', String(beside.pid), '--mount', '--net', '--root']
    const { status, stdout, stderr } = spawnSync('nsenter', [...target, ...inside(run)], { encoding: 'utf8' })
    return { code: status, output: stdout + stderr }
  }

  /** Resolves once the health check ends with 0 beside a process. */
  async healthy(beside: CommandLine, check: Run): Promise<void> {
    let ended: number | null | undefined
    void beside.ended().then(({ code }) => (ended = code))
    await eventually(() => {
      if (ended !== undefined) throw new Error(`It ended with ${ended}: ${beside.errors}`)
      return this.exec(beside, check).code === 0
    }, `it is healthy. It says: ${beside.errors}`)
  }

  async close(): Promise<void> {
    for (const started of this.#started) started.kill('SIGKILL')
    await Promise.all(this.#started.map((started) => started.ended()))
    removeFolder(this.root)
  }
}

/** A command line that becomes its user, has its environment and no other, and gets no privileges back. */
function inside({ argv, directory, environment, user, isOnline }: Run): string[] {
  const [userId, groupId = userId] = user?.split(':') ?? []
  const drop = ['--clear-groups', '--no-new-privs', '--bounding-set=-all', '--inh-caps=-all']
  const become = userId === undefined ? [] : ['setpriv', `--reuid=${userId}`, `--regid=${groupId}`, ...drop]
  const inherited = isOnline === true ? process.env : {}
  const own = environment['PATH']?.replace('$PATH', searchPath) ?? searchPath
  const variables = Object.entries({ ...inherited, ...environment, PATH: own }).map(
    ([name, value]) => `${name}=${value}`,
  )
  return [...become, 'env', '--ignore-environment', `--chdir=${directory}`, ...variables, ...argv]
}
