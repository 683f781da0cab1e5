import { driverFor } from '../api/stores/connect-driver.ts'
import { quietLogger, type Logger } from '../api/client/logger.ts'
import type { LockDriver } from '../core/contract/driver.ts'
import { systemEnvironment, type Environment } from '../core/time/environment.ts'
import { LeaseholdError } from '../core/errors.ts'
import { requireLeaseLifetime } from '../core/contract/supports.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { toWireStatus } from '../core/wire/replies.ts'
import { version } from '../index.ts'
import { AllowedOrigins, isLoopback } from './auth/origins.ts'
import type { Route } from './contract/call.ts'
import { FaultLog, compositionName, StoreFacade, type StoreAccess } from './store/store-facade.ts'
import { Health } from './store/health.ts'
import { resolveLimits, type ServerLimits } from './contract/limits.ts'
import { HttpListener, type TlsOptions } from './http/listener.ts'
import { ServerMetrics } from './store/metrics.ts'
import { Router } from './http/dispatch.ts'
import { healthzRoute, livezRoute, metricsRoute } from './routes/health.ts'
import { keysRoute } from './routes/keys.ts'
import { notificationsRoute, storeRoute } from './routes/store.ts'
import { openapiRoute } from './routes/openapi.ts'
import { describeFault, requestsRoute } from './routes/requests.ts'
import { Sessions } from './store/sessions.ts'
import { StoreDescription } from './store/store-description.ts'
import { TokenBook, type TokenOptions } from './auth/tokens.ts'

/** The options of `serve`: a `store` or a `driver`, and what else there is to say. */
export interface ServeOptions {
  /** The URL of the store to serve, as of `connect`. */
  readonly store?: string | undefined
  /** A driver to serve instead of a URL. Closing the server closes it. */
  readonly driver?: LockDriver | undefined
  /**
   * Where to listen. Other machines are answered only with tokens.
   *
   * @default '127.0.0.1'
   */
  readonly host?: string | undefined
  /**
   * The port to listen on; 0: any that is free.
   *
   * @default 7411
   */
  readonly port?: number | undefined
  /**
   * Who may do what.
   *
   * @default none: every process of this machine may do everything
   */
  readonly tokens?: readonly TokenOptions[] | undefined
  /**
   * Origins whose pages may call this server from a browser: `https://app.example`.
   *
   * @default none but its own
   */
  readonly corsOrigins?: readonly string[] | undefined
  /**
   * Serve https instead of http.
   *
   * @default http
   */
  readonly tls?: TlsOptions | undefined
  /** The most that the server takes on. */
  readonly limits?: Partial<ServerLimits> | undefined
  /**
   * Where the server writes what it does.
   *
   * @default nowhere
   */
  readonly logger?: Logger | undefined
  /**
   * More that the server can be asked for, beside its own: a `dashboard`, say.
   *
   * @default []
   */
  readonly routes?: (readonly Route[] | ((store: StoreAccess) => readonly Route[])) | undefined
  /** Time and chance, for simulators and tests. */
  readonly environment?: Environment | undefined
}

const serveNames: OptionNames<ServeOptions> = {
  store: true,
  driver: true,
  host: true,
  port: true,
  tokens: true,
  corsOrigins: true,
  tls: true,
  limits: true,
  logger: true,
  routes: true,
  environment: true,
}
const tlsNames: OptionNames<TlsOptions> = { cert: true, key: true }

/** A server that runs. */
export interface LeaseholdServer {
  /** Where it listens, for clients of this machine. */
  readonly url: string
  /** Replaces the tokens. Streams end: callers whose token is still good reconnect. */
  replaceTokens(tokens: readonly TokenOptions[]): void
  /** Refuses new calls, lets those under way finish, ends the streams and closes the store. Repeatable. */
  close(): Promise<void>
}

const portDefault = 7411

/**
 * Serves a store over HTTP. Resolves when it listens.
 *
 * @example
 * ```ts
 * import { serve } from 'leasehold/server'
 *
 * const server = await serve({ store: 'sqlite:/var/lib/shop/locks.sqlite', port: 7411 })
 * console.log(server.url)
 * await server.close()
 * ```
 */
export async function serve(options: ServeOptions): Promise<LeaseholdServer> {
  // A misspelt `tokens` would leave the server open to every caller.
  checkOptions(options, serveNames, 'serve')
  checkOptions(options.tls, tlsNames, 'tls')
  const { host: named = '127.0.0.1', port = portDefault, tokens } = options
  // An IPv6 address as URLs have it: `[::1]`.
  const host = named.replace(/^\[(.+)\]$/, '$1')
  const limits = resolveLimits(options.limits)
  const book = tokens === undefined ? undefined : new TokenBook(tokens)
  const origins = new AllowedOrigins(options.corsOrigins ?? [])
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw invalid(`port is ${port}. Use 0 to 65535.`)
  if (book === undefined && !isLoopback(host)) {
    throw invalid(
      `Without tokens a server listens on this machine only, not on ${host}. Give it tokens, or host 127.0.0.1.`,
    )
  }
  const driver = await driverOf(options)
  try {
    await driver.open()
    requireLeaseLifetime(driver, compositionName)
    const server = new OpenServer(driver, { ...options, limits, book, origins })
    await server.listen(host, port)
    return server
  } catch (error) {
    await driver.close().catch(() => {})
    throw error
  }
}

async function driverOf({ store, driver }: ServeOptions): Promise<LockDriver> {
  if ((store === undefined) === (driver === undefined)) throw invalid('serve needs either a store or a driver.')
  return driver ?? driverFor(store as string, { forOthers: true })
}

class OpenServer implements LeaseholdServer {
  url = ''
  readonly #limits: ServerLimits
  readonly #store: StoreFacade
  readonly #listener: HttpListener
  #closing: Promise<void> | undefined

  constructor(
    driver: LockDriver,
    options: Omit<ServeOptions, 'limits'> & {
      readonly limits: ServerLimits
      readonly book: TokenBook | undefined
      readonly origins: AllowedOrigins
    },
  ) {
    const { limits, book, origins, environment = systemEnvironment(), routes = [] } = options
    const logger = options.logger && quietLogger(options.logger)
    const metrics = new ServerMetrics()
    const sessions = new Sessions(environment, limits.claimsMax, (status) => toWireStatus(status, describeFault))
    const faults = new FaultLog(logger, environment)
    const store = new StoreFacade(driver, environment, { sessions, metrics, faults })
    const health = new Health(store, metrics)
    const description = new StoreDescription(store, limits)
    const own: readonly Route[] = [
      requestsRoute({ store, limits, description, marksClaims: book !== undefined, environment }),
      keysRoute(store),
      storeRoute(store, description),
      notificationsRoute(sessions),
      healthzRoute(health),
      livezRoute,
      metricsRoute(metrics, health),
      ...(typeof routes === 'function' ? routes(store) : routes),
    ]
    const router = new Router([...own, openapiRoute(own, version)])
    this.#limits = limits
    this.#store = store
    this.#listener = new HttpListener({
      accessPolicy: { router, limits, tokens: book, origins },
      tls: options.tls,
      metrics,
      logger,
    })
  }

  async listen(host: string, port: number): Promise<void> {
    this.url = await this.#listener.listen(host, port)
  }

  replaceTokens(tokens: readonly TokenOptions[]): void {
    const { accessPolicy } = this.#listener
    if (accessPolicy.tokens === undefined) throw invalid('This server was started without tokens.')
    this.#listener.accessPolicy = { ...accessPolicy, tokens: new TokenBook(tokens) }
    this.#listener.endStreams()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#listener.close(this.#limits.drainWithinMs)
    await this.#store.close(this.#limits.drainWithinMs)
  }
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}
