import { LeaseholdError } from '../../core/errors.ts'
import type { OptionNames } from '../../core/contract/option-names.ts'
import type { SchemaOptions } from './schema.ts'
import { urlOptions } from './url.ts'

/** What the PostgreSQL store may be told. */
export interface PostgresOptions extends SchemaOptions {
  /**
   * With a URL: connections for requests, beside the one that listens.
   *
   * @default 4
   */
  readonly poolSize?: number | undefined
  /**
   * False: ask instead of listening, and spare the connection.
   *
   * @default true
   */
  readonly listen?: boolean | undefined
  /**
   * How long one `send` may take, retries included; where short leases are renewed, a third of their ttl at most.
   *
   * @default 5000
   */
  readonly sendTimeoutMs?: number | undefined
}

/** Every option by its name. @internal */
export const postgresNames: OptionNames<PostgresOptions> = {
  schema: true,
  unlogged: true,
  poolSize: true,
  listen: true,
  sendTimeoutMs: true,
}

/** What a URL says, `?schema=locks&poolSize=2&unlogged=true`, and the URL for the client, without that. @internal */
export function optionsInUrl(source: string): { readonly url: string; readonly options: PostgresOptions } {
  const { url, options } = urlOptions(source, ['schema', 'poolSize', 'unlogged'])
  const [schema, poolSize, unlogged] = [options.get('schema'), options.get('poolSize'), options.get('unlogged')]
  if (unlogged !== undefined && unlogged !== 'true' && unlogged !== 'false') {
    throw new LeaseholdError('INVALID', `?unlogged=${unlogged} is neither true nor false.`)
  }
  return {
    url,
    options: {
      ...(schema !== undefined && { schema }),
      ...(poolSize !== undefined && { poolSize: Number(poolSize) }),
      ...(unlogged !== undefined && { unlogged: unlogged === 'true' }),
    },
  }
}
