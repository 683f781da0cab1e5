/** The floor that no lock library can beat: a bare socket, hand-written commands, everything of one wave in one write. */
import { createHash, randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'

const releaseScript =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
const releaseSha = createHash('sha1').update(releaseScript).digest('hex')

/** SET NX PX to acquire and a compare-and-delete script to release, without fence, queue or error handling. */
export class RawRedis {
  readonly #socket: Socket
  #toCome = 0
  #done: (() => void) | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (data: Buffer) => {
      // Both replies, +OK and :1, are one line.
      for (const byte of data) if (byte === 10) this.#toCome -= 1
      if (this.#toCome === 0) this.#done?.()
    })
  }

  static async open(port: number): Promise<RawRedis> {
    const socket = connect(port, '127.0.0.1')
    socket.setNoDelay(true)
    await new Promise<void>((resolve) => socket.once('connect', () => resolve()))
    const raw = new RawRedis(socket)
    // Answered with the hash, in two lines.
    await raw.#send(command('SCRIPT', 'LOAD', releaseScript), 2)
    return raw
  }

  /** Acquires and releases every key once. */
  async pairs(keys: readonly string[], ttlMs: number): Promise<void> {
    const held = keys.map((key) => ({ key, token: randomBytes(16).toString('hex') }))
    const acquire = held.map(({ key, token }) => command('SET', key, token, 'NX', 'PX', String(ttlMs)))
    await this.#send(acquire.join(''), keys.length)
    const release = held.map(({ key, token }) => command('EVALSHA', releaseSha, '1', key, token))
    await this.#send(release.join(''), keys.length)
  }

  close(): void {
    this.#socket.destroy()
  }

  #send(text: string, lines: number): Promise<void> {
    return new Promise((resolve) => {
      this.#toCome = lines
      this.#done = resolve
      this.#socket.write(text)
    })
  }
}

function command(...parts: readonly string[]): string {
  return `*${parts.length}\r\n${parts.map((part) => `$${part.length}\r\n${part}\r\n`).join('')}`
}
