import { LeaseholdError } from '../core/errors.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import script from './fenced-command.lua.generated.ts'
import { checkFence, superseded } from './superseded.ts'

/** The part of an ioredis client, or of its Cluster, that the guard uses. */
export interface IoredisClient {
  eval(script: string, keyCount: number, ...keysAndArguments: string[]): Promise<unknown>
  defineCommand(name: string, definition: { lua: string }): void
}

/** The part of a node-redis client, or of its cluster, that the guard uses. */
export interface NodeRedisClient {
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
}

/** The options of `redisGuard`. */
export interface RedisGuardOptions {
  /**
   * The key that keeps the fence of a key. It must not expire while a stale holder may still write.
   *
   * @default `{key}:fence`, in the same slot of a cluster
   */
  readonly fenceKey?: ((key: string) => string) | undefined
}

const redisNames: OptionNames<RedisGuardOptions> = { fenceKey: true }

/** Keeps stale holders out of Redis keys: one script checks the fence and runs the command, atomically. */
export interface RedisGuard {
  /**
   * Raises the fence of a key before a read whose result is to be written back: no earlier holder can write it any more.
   * Throws LOST (`superseded`) if a later holder has been here.
   */
  raise(key: string, fence: number): Promise<void>
  /** SET, unless a later holder has been here. Throws LOST (`superseded`). */
  set(key: string, value: string, fence: number): Promise<void>
  /**
   * Any command on this one key: `['HSET', key, 'total', '5']`, or `['GET', key]` to raise the fence and read in one step.
   * Resolves to its reply as a script sees it. Throws LOST (`superseded`) if a later holder has been here.
   */
  command(key: string, command: readonly [string, ...string[]], fence: number): Promise<unknown>
}

class RedisFences implements RedisGuard {
  readonly #evaluate: (keys: string[], values: string[]) => Promise<unknown>
  readonly #fenceKey: (key: string) => string

  constructor(client: IoredisClient | NodeRedisClient, options: RedisGuardOptions = {}) {
    checkOptions(options, redisNames, 'redisGuard')
    this.#evaluate =
      'defineCommand' in client
        ? (keys, values) => client.eval(script, keys.length, ...keys, ...values)
        : (keys, values) => client.eval(script, { keys, arguments: values })
    this.#fenceKey = options.fenceKey ?? fenceKeyOf
  }

  async raise(key: string, fence: number): Promise<void> {
    await this.#run(key, [], fence)
  }

  async set(key: string, value: string, fence: number): Promise<void> {
    await this.command(key, ['SET', key, value], fence)
  }

  async command(key: string, command: readonly [string, ...string[]], fence: number): Promise<unknown> {
    return this.#run(key, command, fence)
  }

  async #run(key: string, command: readonly string[], fence: number): Promise<unknown> {
    const keys = [this.#fenceKey(key), key]
    const answer = await this.#evaluate(keys, [String(checkFence(fence)), ...command])
    const [done, reply] = Array.isArray(answer) ? (answer as unknown[]) : []
    if (done === 1) return reply
    if (done === 0) throw superseded(key, fence, Number(reply))
    throw new LeaseholdError('INVALID', 'Redis sent a reply that the guard does not understand.')
  }
}

/**
 * A guard for keys of Redis, over an ioredis or a node-redis client.
 *
 * @example
 * ```ts
 * import { redisGuard } from 'leasehold/guards'
 * import { Redis } from 'ioredis'
 *
 * const guard = redisGuard(new Redis())
 * await locks.run('orders/42', (lease) => guard.set('order:42', 'paid', lease.fence))
 * ```
 */
export function redisGuard(client: IoredisClient | NodeRedisClient, options?: RedisGuardOptions): RedisGuard {
  return new RedisFences(client, options)
}

/** The default fence key, in the slot of its key: a key without a hash tag becomes the tag. */
function fenceKeyOf(key: string): string {
  return /\{[^}]+\}/.test(key) ? `${key}:fence` : `{${key}}:fence`
}
