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
import { ClaimWaits } from './store/claim-waits.ts'
import { Health } from './store/health.ts'
import { resolveLimits, type ServerLimits } from './contract/limits.ts'
import { HttpListener } from './http/listener.ts'
import { TrustedProxies } from './http/caller-address.ts'
import type { TlsOptions } from './http/tls.ts'
import { AuditLog, auditLine } from './audit/audit-log.ts'
import { ClaimAudit } from './audit/claim-audit.ts'
import { LineFile } from './audit/line-file.ts'
import { Authenticator } from './auth/authenticator.ts'
import { JwtVerifier } from './auth/jwt.ts'
import type { JwtOptions } from './auth/jwt-options.ts'
import { RateLimits, type RateLimitOptions } from './auth/rate-limits.ts'
import { AuthorizedStore } from './store/authorized-store.ts'
import { ClaimQuotas } from './store/claim-quotas.ts'
import { ServerMetrics } from './store/metrics.ts'
import { Router } from './http/dispatch.ts'
import { healthzRoute, livezRoute, metricsRoute } from './routes/health.ts'
import { keysRoute } from './routes/keys.ts'
import { lockRoutes } from './routes/locks.ts'
import { notificationsRoute, storeRoute } from './routes/store.ts'
import { openapiRoute } from './routes/openapi.ts'
import { requestsRoute } from './routes/requests.ts'
import { publicFault } from './store/store-fault.ts'
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
   * JSON Web Tokens of an identity provider that are taken, beside `tokens` or instead of them. Needs the package `jose`.
   *
   * @default none
   */
  readonly jwt?: JwtOptions | undefined
  /**
   * How often each token, and each address, may call.
   *
   * @default as often as they like
   */
  readonly rateLimits?: RateLimitOptions | undefined
  /**
   * Proxies whose `X-Forwarded-For` is believed, by address or network: `10.0.0.7`, `10.1.0.0/16`.
   *
   * @default none
   */
  readonly trustedProxies?: readonly string[] | undefined
  /**
   * Where every change, refusal, forced take and failed sign-in is recorded, as JSON lines.
   *
   * @default nowhere
   */
  readonly audit?: AuditOptions | undefined
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

/** The audit of a server. */
export interface AuditOptions {
  /** A path, or `-` for standard output. A new file is readable by its owner alone. */
  readonly file: string
  /**
   * Records renewals that only renew, too: one a claim every few seconds.
   *
   * @default false
   */
  readonly renewals?: boolean | undefined
  /**
   * Bytes that may wait to be written; what comes on top is dropped and counted.
   *
   * @default 8_388_608
   */
  readonly queueBytesMax?: number | undefined
}

const serveNames: OptionNames<ServeOptions> = {
  store: true,
  driver: true,
  host: true,
  port: true,
  tokens: true,
  jwt: true,
  rateLimits: true,
  trustedProxies: true,
  audit: true,
  corsOrigins: true,
  tls: true,
  limits: true,
  logger: true,
  routes: true,
  environment: true,
}
const tlsNames: OptionNames<TlsOptions> = { cert: true, key: true, clientCa: true, clients: true }
const auditNames: OptionNames<AuditOptions> = { file: true, renewals: true, queueBytesMax: true }
const auditQueueBytes = 8_388_608

/** A server that runs. */
export interface LeaseholdServer {
  /** Where it listens, for clients of this machine. */
  readonly url: string
  /**
   * Replaces the tokens. Streams and waiting calls of tokens that are gone, or have other rights now, end at once. What they hold can be
   * renewed no more, and ends with its ttl.
   */
  replaceTokens(tokens: readonly TokenOptions[]): void
  /** Replaces which JWTs are taken. Streams and waiting calls of their bearers end: they sign in anew. */
  replaceJwt(jwt: JwtOptions): Promise<void>
  /** Uses other certificates from the next connection on. Connections stay. Throws INVALID if they cannot be used, and keeps the old. */
  replaceTls(tls: TlsOptions): void
  /** Opens the file of the audit anew, after it was moved. Rejects if it cannot be opened: the old file is written on. */
  reopenAudit(): Promise<void>
  /** Refuses new calls, lets those under way finish, ends the streams and closes the store. Repeatable. */
  close(): Promise<void>
}

const portDefault = 7411
/** How long the end of the audit may take to be written when the server closes. */
const auditWithinMs = 2000

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
  checkOptions(options.audit, auditNames, 'audit')
  const { host: named = '127.0.0.1', port = portDefault, tokens, jwt } = options
  // An IPv6 address as URLs have it: `[::1]`.
  const host = named.replace(/^\[(.+)\]$/, '$1')
  const limits = resolveLimits(options.limits)
  const book = tokens === undefined ? undefined : new TokenBook(tokens)
  const origins = new AllowedOrigins(options.corsOrigins ?? [])
  const proxies = new TrustedProxies(options.trustedProxies ?? [])
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw invalid(`port is ${port}. Use 0 to 65535.`)
  if (book === undefined && jwt === undefined && !isLoopback(host)) {
    throw invalid(
      `Without tokens a server listens on this machine only, not on ${host}. Give it tokens, or host 127.0.0.1.`,
    )
  }
  if (options.tls?.clientCa !== undefined && book === undefined) {
    throw invalid('Client certificates stand for tokens. Give the server tokens that name them.')
  }
  const environment = options.environment ?? systemEnvironment()
  const logger = options.logger && quietLogger(options.logger)
  const metrics = new ServerMetrics()
  const rates = new RateLimits(options.rateLimits ?? {}, environment, metrics)
  const verifier = jwt && (await JwtVerifier.load(jwt, { environment, logger }))
  const driver = await driverOf(options)
  let audit: AuditLog | undefined
  try {
    await driver.open()
    requireLeaseLifetime(driver, compositionName)
    audit = await openAudit(options.audit, { metrics, logger, environment })
    const parts = { limits, book, verifier, origins, proxies, environment, logger, metrics, rates, audit }
    const server = new OpenServer(driver, options, parts)
    await server.listen(host, port)
    return server
  } catch (error) {
    await audit?.close(0)
    await driver.close().catch(() => {})
    throw error
  }
}

async function openAudit(
  options: AuditOptions | undefined,
  { metrics, logger, environment }: Pick<ServerParts, 'metrics' | 'logger' | 'environment'>,
): Promise<AuditLog | undefined> {
  if (options === undefined) return undefined
  const { file, queueBytesMax = auditQueueBytes } = options
  if (typeof file !== 'string' || file === '') throw invalid("audit needs a file, or '-' for standard output.")
  if (!Number.isInteger(queueBytesMax) || queueBytesMax < 1) throw invalid('queueBytesMax is a whole number from 1 on.')
  const lines = await LineFile.open(file, {
    bytesMax: queueBytesMax,
    counts: metrics,
    logger,
    gapLine: (count) => auditLine({ event: 'dropped', count }, environment.wall()),
    now: () => environment.now(),
  })
  return new AuditLog(lines, environment)
}

/** What a server is made of, checked and opened. */
interface ServerParts {
  readonly limits: ServerLimits
  readonly book: TokenBook | undefined
  readonly verifier: JwtVerifier | undefined
  readonly origins: AllowedOrigins
  readonly proxies: TrustedProxies
  readonly environment: Environment
  readonly logger: Logger | undefined
  readonly metrics: ServerMetrics
  readonly rates: RateLimits
  readonly audit: AuditLog | undefined
}

async function driverOf({ store, driver }: ServeOptions): Promise<LockDriver> {
  if ((store === undefined) === (driver === undefined)) throw invalid('serve needs either a store or a driver.')
  return driver ?? driverFor(store as string, { forOthers: true })
}

class OpenServer implements LeaseholdServer {
  url = ''
  readonly #parts: ServerParts
  readonly #store: StoreFacade
  readonly #waits: ClaimWaits
  readonly #listener: HttpListener
  #closing: Promise<void> | undefined

  constructor(driver: LockDriver, options: ServeOptions, parts: ServerParts) {
    const { limits, book, verifier, origins, proxies, environment, logger, metrics, rates, audit: log } = parts
    const { routes = [] } = options
    const isOpenToAll = book === undefined && verifier === undefined
    const authenticator = isOpenToAll ? undefined : new Authenticator(book, verifier, environment)
    const withRenewals = options.audit?.renewals === true
    const audit = log && new ClaimAudit(log, { withRenewals, waitingMax: limits.claimsMax })
    const { claimsMax, claimsPerTokenMax } = limits
    // Half at most, so that no token takes all of it.
    const share = isOpenToAll ? claimsMax : Math.min(claimsPerTokenMax, Math.ceil(claimsMax / 2))
    const notified = { claimsMax, claimsPerTokenMax: share }
    const sessions = new Sessions(environment, notified, (status) => toWireStatus(status, publicFault))
    const faults = new FaultLog(logger, environment)
    const quotas = new ClaimQuotas({ limits, environment, metrics })
    const store = new StoreFacade(driver, environment, { sessions, metrics, faults, audit, quotas })
    const authorized = new AuthorizedStore({ store, audit, quotas, marksClaims: !isOpenToAll, environment })
    const health = new Health(store, metrics)
    const description = new StoreDescription(store, limits)
    const waits = new ClaimWaits(store, environment, metrics, limits)
    const own: readonly Route[] = [
      requestsRoute({ store: authorized, limits, description }),
      ...lockRoutes({ store: authorized, environment, limits, waits }),
      keysRoute(authorized, limits),
      storeRoute(store, description),
      notificationsRoute(sessions),
      healthzRoute(health),
      livezRoute,
      metricsRoute(metrics, health),
      ...(typeof routes === 'function' ? routes(authorized) : routes),
    ]
    const router = new Router([...own, openapiRoute(own, version)])
    this.#parts = parts
    this.#store = store
    this.#waits = waits
    this.#listener = new HttpListener({
      accessPolicy: { router, limits, authenticator, rates, origins, proxies },
      tls: options.tls,
      metrics,
      audit: log,
      logger,
      environment,
    })
  }

  async listen(host: string, port: number): Promise<void> {
    this.url = await this.#listener.listen(host, port)
  }

  replaceTokens(tokens: readonly TokenOptions[]): void {
    const { authenticator } = this.#listener.accessPolicy
    if (authenticator?.tokens === undefined) throw invalid('This server was started without tokens.')
    this.#replaceAuthenticator(new TokenBook(tokens), authenticator.jwt)
  }

  async replaceJwt(jwt: JwtOptions): Promise<void> {
    if (this.#parts.verifier === undefined) throw invalid('This server was started without jwt.')
    const verifier = await JwtVerifier.load(jwt, this.#parts)
    this.#replaceAuthenticator(this.#listener.accessPolicy.authenticator?.tokens, verifier)
  }

  #replaceAuthenticator(tokens: TokenBook | undefined, jwt: JwtVerifier | undefined): void {
    this.#listener.replaceAccess({ authenticator: new Authenticator(tokens, jwt, this.#parts.environment) })
  }

  replaceTls(tls: TlsOptions): void {
    checkOptions(tls, tlsNames, 'tls')
    this.#listener.replaceTls(tls)
  }

  async reopenAudit(): Promise<void> {
    await this.#parts.audit?.reopen()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const { limits, audit } = this.#parts
    this.#waits.close()
    await this.#listener.close(limits.drainWithinMs)
    await this.#store.close(limits.drainWithinMs)
    await audit?.close(auditWithinMs)
  }
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}
