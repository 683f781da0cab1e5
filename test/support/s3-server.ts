/** Private S3 servers for tests: moto, on a free port, with its objects in memory. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { S3 } from '@aws-sdk/client-s3'
import type { S3Options } from '../../src/drivers/s3/driver.ts'
import { freePort } from './free-port.ts'
import { motoCommand } from './moto-program.ts'
import { ServerProcess } from './server-process.ts'

const startedWithinMs = 60_000

export interface S3Wish {
  /** The Debian release that the server comes from. */
  readonly release?: 'sid' | 'trixie'
  /** It checks signatures and rights, once users have been made with so many calls. */
  readonly callsBeforeRights?: number
}

export class S3Server extends ServerProcess {
  readonly port: number
  readonly endpoint: string
  readonly bucket = 'locks'
  /** A client of others, which makes buckets and looks at objects. */
  readonly client: S3
  readonly #wish: S3Wish

  private constructor(port: number, wish: S3Wish) {
    super()
    this.port = port
    this.endpoint = `http://127.0.0.1:${port}`
    this.#wish = wish
    this.client = sdkClient(this.endpoint)
  }

  static async start(wish: S3Wish = {}): Promise<S3Server> {
    const server = new S3Server(await freePort(), wish)
    await server.start()
    return server
  }

  /** Starts with an empty bucket: what was there is gone. */
  async start(): Promise<void> {
    const { release, callsBeforeRights } = this.#wish
    const [program, ...args] = motoCommand(this.port, release)
    // Rights are another service's.
    if (callsBeforeRights === undefined) args.push('s3')
    const rights = callsBeforeRights !== undefined && { INITIAL_NO_AUTH_ACTION_COUNT: String(callsBeforeRights) }
    this.process = spawn(program, args, { stdio: 'ignore', env: { ...process.env, ...rights } })
    process.once('exit', this.#quit)
    const deadline = Date.now() + startedWithinMs
    for (;;) {
      try {
        await this.client.createBucket({ Bucket: this.bucket })
        return
      } catch (error) {
        if (Date.now() > deadline || !this.isRunning) throw error
        await pause(50)
      }
    }
  }

  /** What a driver needs to use this server, at another port if that of a proxy is given. */
  options(prefix: string, { port = this.port }: { readonly port?: number } = {}): S3Options {
    const { bucket } = this
    return {
      bucket,
      prefix,
      endpoint: `http://127.0.0.1:${port}`,
      credentials: credentialsForTests,
      waitMin: 10,
      waitMax: 400,
      readsPerSecond: 60,
    }
  }

  /** The URL of the same, for those who take their credentials from the environment. */
  url(prefix: string): string {
    return `s3://${this.bucket}/${prefix}?endpoint=${this.endpoint}`
  }

  /** Removes every object below a prefix. */
  async removeAll(prefix: string): Promise<void> {
    for (;;) {
      const { Contents = [] } = await this.client.listObjectsV2({ Bucket: this.bucket, Prefix: prefix })
      if (Contents.length === 0) return
      const Objects = Contents.map(({ Key }) => ({ Key }))
      await this.client.deleteObjects({ Bucket: this.bucket, Delete: { Objects } })
    }
  }

  async stop(): Promise<void> {
    this.client.destroy()
    await this.kill()
    process.removeListener('exit', this.#quit)
  }

  readonly #quit = (): void => void this.process?.kill('SIGKILL')
}

export const credentialsForTests = { accessKeyId: 'AKIATEST', secretAccessKey: 'test-secret' }

/** The AWS SDK's own client. */
export function sdkClient(endpoint: string, maxAttempts = 1): S3 {
  const place = { endpoint, region: 'us-east-1', forcePathStyle: true }
  return new S3({ ...place, maxAttempts, credentials: credentialsForTests })
}

/** A prefix that no other test uses. */
export function freshS3Prefix(): string {
  return `test-${randomBytes(6).toString('hex')}/`
}
