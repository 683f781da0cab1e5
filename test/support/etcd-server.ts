/** Private etcd servers for tests: real ones, alone or three together, on free ports, with folders of their own. */
import { execFile, spawn, type PromiseWithChild } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { get as getPlain } from 'node:http'
import { get as getSecure } from 'node:https'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { needProgram } from './debian.ts'
import { freePort } from './free-port.ts'
import type { PeerNetwork } from './peer-network.ts'
import type { PrivateCa } from './private-ca.ts'
import { ServerProcess } from './server-process.ts'

const startedWithinMs = 60_000

export interface EtcdWish {
  /** With TLS. */
  readonly certificate?: PrivateCa
  /** Options of etcd's command line, beside ours. */
  readonly settings?: Readonly<Record<string, string>>
  /** What the nodes reach each other through. */
  readonly network?: PeerNetwork
}

interface Status {
  readonly leader: number
  readonly header: { readonly member_id: number; readonly revision: number }
}

interface Peer {
  readonly name: string
  readonly port: number
  readonly peerPort: number
  /** Where others reach it. */
  readonly advertisedPort: number
}

export class EtcdServer extends ServerProcess {
  readonly port: number
  readonly url: string
  readonly #peer: Peer
  readonly #peers: readonly Peer[]
  readonly #query: EtcdWish
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'leasehold-etcd-'))

  private constructor(peer: Peer, peers: readonly Peer[], query: EtcdWish) {
    super()
    this.port = peer.port
    this.url = `${query.certificate === undefined ? 'etcd' : 'etcds'}://127.0.0.1:${peer.port}`
    this.#query = query
    this.#peer = peer
    this.#peers = peers
  }

  /** One alone. */
  static async start(query: EtcdWish = {}): Promise<EtcdServer> {
    const [server] = await EtcdServer.startCluster(1, query)
    if (server === undefined) throw new Error('There is no server.')
    return server
  }

  /** Several that are one store. */
  static async startCluster(size = 3, query: EtcdWish = {}): Promise<EtcdServer[]> {
    const peers: Peer[] = []
    for (let number = 0; number < size; number += 1) {
      const peerPort = await freePort()
      const advertisedPort = (await query.network?.route(peerPort)) ?? peerPort
      peers.push({ name: `node${number}`, port: await freePort(), peerPort, advertisedPort })
    }
    const servers = peers.map((peer) => new EtcdServer(peer, peers, query))
    await Promise.all(servers.map((server) => server.start()))
    return servers
  }

  /** What is on its disk. */
  get dataFolder(): string {
    return path.join(this.#folder, 'data')
  }

  get pid(): number {
    return this.process?.pid as number
  }

  /** Starts again after `kill`, on the same port and with what is on disk. */
  async start(): Promise<void> {
    const program = needProgram('etcd', ['etcd-server'])
    const { name, port, peerPort, advertisedPort } = this.#peer
    const { certificate, settings: wishes } = this.#query
    const settings = {
      name,
      'data-dir': this.dataFolder,
      'listen-client-urls': `${this.#protocol}://127.0.0.1:${port}`,
      'advertise-client-urls': `${this.#protocol}://127.0.0.1:${port}`,
      ...(certificate !== undefined && {
        'cert-file': certificate.certificateFile,
        'key-file': certificate.keyFile,
      }),
      'listen-peer-urls': `http://127.0.0.1:${peerPort}`,
      'initial-advertise-peer-urls': `http://127.0.0.1:${advertisedPort}`,
      'initial-cluster': this.#peers.map((peer) => `${peer.name}=http://127.0.0.1:${peer.advertisedPort}`).join(','),
      'initial-cluster-token': `leasehold-${this.#peers.map((peer) => peer.port).join('-')}`,
      'heartbeat-interval': '50',
      'election-timeout': '500',
      'log-level': 'fatal',
      ...wishes,
    }
    const args = Object.entries(settings).map(([option, value]) => `--${option}=${value}`)
    this.process = spawn(program, args, { stdio: 'ignore' })
    const deadline = Date.now() + startedWithinMs
    while (!(await this.#isHealthy())) {
      if (Date.now() > deadline) throw new Error(`etcd did not start within ${startedWithinMs} ms.`)
      await pause(20)
    }
  }

  /** One command, through etcdctl; resolves to what it prints. */
  async control(...args: readonly string[]): Promise<string> {
    const { stdout } = await this.#run(...args)
    return stdout.trimEnd()
  }

  /** Cuts it off from the others until the network is healed. Clients reach it still. */
  async isolate(): Promise<void> {
    this.#query.network?.isolate(await this.#memberId(), this.#peer.peerPort)
  }

  /** Wants a password from now on; who has this one may use the prefix. */
  async guard(prefix: string, login: string): Promise<void> {
    const [user = ''] = login.split(':')
    for (const command of [
      'user add root:top',
      'user grant-role root root',
      'role add locks',
      `role grant-permission locks --prefix=true readwrite ${prefix}`,
      `user add ${login}`,
      `user grant-role ${user} locks`,
      'auth enable',
    ]) {
      await this.control(...command.split(' '))
    }
  }

  /** Ends every token of a user, as a new password does. */
  async endTokens(login: string): Promise<void> {
    const [user = '', password = ''] = login.split(':')
    const changing = this.#run('--user=root:top', 'user', 'passwd', user, '--interactive=false')
    changing.child.stdin?.end(`${password}\n`)
    await changing
  }

  /** Makes it forget all that came before what is stored now. */
  async compact(): Promise<void> {
    const { header } = await this.#status()
    await this.control('compact', String(header.revision))
  }

  /** Writes all it has into a file, which goes with the server. */
  async saveSnapshot(): Promise<string> {
    const file = path.join(this.#folder, `snapshot-${Date.now()}`)
    await this.control('snapshot', 'save', file)
    return file
  }

  /** Begins anew with what a snapshot has, as after a disaster. */
  async restore(file: string): Promise<void> {
    await this.kill()
    const { name, advertisedPort } = this.#peer
    const folder = path.join(this.#folder, 'data')
    rmSync(folder, { recursive: true, force: true })
    const peer = `http://127.0.0.1:${advertisedPort}`
    const place = [`--data-dir=${folder}`, `--name=${name}`, `--initial-advertise-peer-urls=${peer}`]
    await this.control('snapshot', 'restore', file, ...place, `--initial-cluster=${name}=${peer}`)
    await this.start()
  }

  /** Whether it leads the others. */
  async isLeader(): Promise<boolean> {
    const { leader, header } = await this.#status()
    return leader === header.member_id
  }

  /** Has another lead. */
  async moveLeaderTo(other: EtcdServer): Promise<void> {
    await this.control('move-leader', await other.#memberId())
  }

  async stop(): Promise<void> {
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #memberId(): Promise<string> {
    const members = (await this.control('member', 'list')).split('\n').map((line) => line.split(', '))
    return members.find(([, , name]) => name === this.#peer.name)?.[0] ?? ''
  }

  async #status(): Promise<Status> {
    const [{ Status: status }] = JSON.parse(await this.control('endpoint', 'status', '-w', 'json')) as [
      { Status: Status },
    ]
    return status
  }

  #run(...args: readonly string[]): PromiseWithChild<{ stdout: string }> {
    const program = needProgram('etcdctl', ['etcd-client'])
    const options = { timeout: 30_000, env: { ...process.env, ETCDCTL_API: '3' } }
    return promisify(execFile)(program, [`--endpoints=127.0.0.1:${this.port}`, ...args], options)
  }

  get #protocol(): 'http' | 'https' {
    return this.#query.certificate === undefined ? 'http' : 'https'
  }

  #isHealthy(): Promise<boolean> {
    return new Promise((resolve) => {
      const options = { host: '127.0.0.1', port: this.port, path: '/health', timeout: 1000, agent: false }
      const received = (response: AsyncIterable<Buffer>): void => {
        let text = ''
        const read = async (): Promise<void> => {
          for await (const piece of response) text += String(piece)
        }
        read().then(
          () => resolve(text.includes('"health":"true"')),
          () => resolve(false),
        )
      }
      const request =
        this.#protocol === 'http'
          ? getPlain(options, received)
          : getSecure({ ...options, rejectUnauthorized: false }, received)
      request.on('error', () => resolve(false))
      request.on('timeout', () => request.destroy())
    })
  }
}

/** The URL of them all, in this order. */
export function urlOf(servers: readonly { readonly port: number }[]): string {
  return `etcd://${servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`
}
