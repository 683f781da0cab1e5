/** The network between the nodes of an etcd: each is reached through a proxy that knows the calling node. */
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './free-port.ts'
import { listen, closeServer } from './loopback.ts'

/** One node's connection to another, and the one that was made for it. */
interface Link {
  readonly from: string
  readonly to: number
  readonly sockets: readonly Socket[]
}

/** Routes between nodes, which a test can cut. */
export class PeerNetwork {
  readonly #servers: Server[] = []
  readonly #links = new Set<Link>()
  #apart: { readonly member: string; readonly port: number } | undefined

  /** The port at which others reach the node that listens at this one. */
  async route(port: number): Promise<number> {
    const outside = await freePort()
    const server = createServer((socket) => this.#accept(socket, port))
    this.#servers.push(server)
    await listen(server, outside)
    return outside
  }

  /** Cuts one node off from all others, which still reach each other. `member` is the node's own id. */
  isolate(member: string, port: number): void {
    this.#apart = { member, port }
    for (const link of this.#links) if (this.#isCut(link.from, link.to)) close(link.sockets)
  }

  heal(): void {
    this.#apart = undefined
  }

  async stop(): Promise<void> {
    for (const { sockets } of this.#links) close(sockets)
    await Promise.all(this.#servers.map((server) => closeServer(server)))
  }

  #accept(client: Socket, to: number): void {
    client.on('error', () => {})
    let head = ''
    client.on('data', (data: Buffer) => {
      head += data.toString('latin1')
      // Nodes say who they are in the head of each request, and all on one connection are of the same node.
      const from = /^x-server-from: *([0-9a-f]+)\r$/im.exec(head)?.[1]
      if (from === undefined && !head.includes('\r\n\r\n')) return
      client.removeAllListeners('data')
      if (this.#isCut(from ?? '', to)) client.resetAndDestroy()
      else this.#forward(client, from ?? '', to, Buffer.from(head, 'latin1'))
    })
  }

  #forward(client: Socket, from: string, to: number, head: Buffer): void {
    const target = connect({ port: to, host: '127.0.0.1' })
    const link: Link = { from, to, sockets: [client, target] }
    this.#links.add(link)
    target.on('error', () => {})
    for (const socket of link.sockets) {
      socket.on('close', () => {
        this.#links.delete(link)
        close(link.sockets)
      })
    }
    target.write(head)
    client.pipe(target).pipe(client)
  }

  /** Only a keep-alive forwarded to the leader lacks the sender's id; an isolated node has no leader to forward to. */
  #isCut(from: string, to: number): boolean {
    return from === this.#apart?.member || to === this.#apart?.port
  }
}

function close(sockets: readonly Socket[]): void {
  for (const socket of sockets) if (!socket.destroyed) socket.resetAndDestroy()
}
