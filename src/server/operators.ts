import { quietLogger, type Logger } from '../api/client/logger.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { systemEnvironment, type Environment } from '../core/time/environment.ts'
import {
  accessDocument,
  auditDocument,
  auditEntry,
  cyclesDocument,
  principalDocument,
  operatorsLockPage,
  overviewDocument,
  lockPageDocument,
  seriesDocument,
  type AccessDocument,
  type LockPageDocument,
  type PrincipalDocument,
} from '../dashboard/documents.ts'
import { events, json, type Call, type Caller, type Route, type RouteSchema } from './contract/call.ts'
import {
  type EvictionContext,
  Audit,
  evictionResultOf,
  auditEntryOf,
  evictAndAudit,
  evictionBody,
  readEviction,
} from './operators/evictions.ts'
import { ChangeWatch, expensiveStoreMs } from './operators/change-watch.ts'
import { readCycles } from './operators/cycles.ts'
import { LockPages, lockQuery, locksQuery, namespaceParameter, namespaceQuery } from './operators/locks.ts'
import { readQuery } from './contract/query.ts'
import { pageRoutes } from './operators/page.ts'
import { requestsWorth } from './operators/changes.ts'
import { lockDocument } from './operators/lock-documents.ts'
import { LockHistory } from './operators/lock-history.ts'
import { lockKeyQuery, Overview, overviewQuery, readOverviewQuery } from './operators/overview.ts'
import { Series } from './operators/series.ts'
import { Snapshots } from './operators/snapshots.ts'
import { checkListing } from './auth/rights.ts'
import type { LockDriver } from '../core/contract/driver.ts'
import { mountRoutes, type DashboardViewer, type MountedDashboard } from './mounted.ts'
import type { StoreAccess } from './store/store-facade.ts'

export type {
  DashboardViewer,
  FastifyInstanceLike,
  FastifyReplyLike,
  FastifyRequestLike,
  MountedDashboard,
} from './mounted.ts'

/** The options of `dashboard`. */
export interface DashboardOptions {
  /**
   * Receives a line for every eviction.
   *
   * @default none
   */
  readonly logger?: Logger | undefined
  /**
   * False: the store is read only while somebody watches, so that charts and the histories of locks begin when a page is opened. By default
   * it is read once a second, for a fiftieth of the time at most, and not where reading is expensive (GitHub).
   *
   * @default true
   */
  readonly history?: boolean | undefined
  /** Time, for simulators and tests. */
  readonly environment?: Environment | undefined
}

const dashboardNames: OptionNames<DashboardOptions> = { logger: true, history: true, environment: true }

const refreshDefaultMs = 5000
/** Pages ask several times in a second: one read serves them. */
const overviewFreshMs = 900
/** So many evictions of the audit count as one request more. */
const evictionsPerRequest = 16

/**
 * The routes for people who look after locks, and the page that shows them: pass it to `serve` as `routes`.
 *
 * @example
 * ```ts
 * import { dashboard } from 'leasehold/dashboard'
 * import { serve } from 'leasehold/server'
 *
 * await serve({ store: 'sqlite:/var/lib/shop/locks.sqlite', routes: dashboard({ logger: console }) })
 * ```
 */
export function dashboard(options: DashboardOptions = {}): (store: StoreAccess) => readonly Route[] {
  checkOptions(options, dashboardNames, 'dashboard')
  const { logger, history: always = true, environment = systemEnvironment() } = options
  return (store) => {
    const audit = new Audit(logger && quietLogger(logger))
    store.onEviction(({ principal, request, status }) => {
      audit.record(auditEntryOf({ environment }, principal, request, { result: evictionResultOf(status) }))
    })
    const snapshots = new Snapshots(store, environment)
    const series = new Series()
    const history = new LockHistory()
    const watch = new ChangeWatch({
      store,
      snapshots,
      environment,
      always,
      evicted: (key, fence) => audit.find(key, fence),
      seen(snapshot, changes) {
        series.record(environment.wall(), snapshot, changes)
        history.record(environment.wall(), changes)
      },
    })
    store.onClose(() => watch.close())
    const freshMs = Math.max(overviewFreshMs, expensiveStoreMs(store))
    return [
      accessRoute,
      principalRoute(store),
      locksRoute(store, new LockPages(environment)),
      overviewRoute(new Overview(snapshots, environment, freshMs)),
      lockRoute(store, history, environment),
      seriesRoute(series, environment),
      cyclesRoute(store, environment),
      changesRoute(watch),
      auditRoute(audit),
      evictionsRoute({ store, environment, audit }),
      ...pageRoutes(),
    ]
  }
}

/** The options of `mountDashboard`: a `store` or a `driver`, and what else there is to say. */
export interface MountDashboardOptions extends DashboardOptions {
  /** The URL of the store, as of `connect`. */
  readonly store?: string | undefined
  /** A driver instead of a URL. Closing the dashboard closes it. */
  readonly driver?: LockDriver | undefined
  /**
   * Who makes a call, after your own sign-in has let it pass: gets the request as your framework has it. Undefined refuses the call.
   *
   * @default everybody may see everything, and evict nobody
   */
  viewer?(this: void, request: object): DashboardViewer | undefined | Promise<DashboardViewer | undefined>
}

const mountNames: OptionNames<MountDashboardOptions> = { ...dashboardNames, store: true, driver: true, viewer: true }

/**
 * The dashboard inside a server of yours, behind its own sign-in. Resolves when the store is open.
 *
 * @example
 * ```ts
 * import express from 'express'
 * import { mountDashboard } from 'leasehold/dashboard'
 *
 * const board = await mountDashboard({ store: 'sqlite:/var/lib/shop/locks.sqlite' })
 * express().use('/locks', signIn, board.node)
 * ```
 */
export async function mountDashboard(options: MountDashboardOptions): Promise<MountedDashboard> {
  checkOptions(options, mountNames, 'mountDashboard')
  const { store, driver, viewer, logger, history, environment = systemEnvironment() } = options
  const quiet = logger && quietLogger(logger)
  return mountRoutes(dashboard({ logger, history, environment }), { store, driver, viewer, logger: quiet, environment })
}

/** For the page, so that it asks for a token only where one is wanted. */
const accessRoute: Route = {
  method: 'GET',
  path: '/dashboard/access',
  right: 'anybody',
  summary: 'Whether the server wants a token.',
  schema: { answer: accessDocument },
  // A server without tokens gives every caller all rights.
  handle: ({ principal }) => json({ wantsToken: principal.rights.size === 0 } satisfies AccessDocument),
}

function principalRoute(store: StoreAccess): Route {
  const summary = 'What the token in hand may do.'
  const route = readRoute('/v1/principal', summary, { answer: principalDocument }, ({ principal, query }) => {
    readQuery({}, query)
    const rights = [...principal.rights].toSorted()
    const refreshMs = Math.max(refreshDefaultMs, expensiveStoreMs(store))
    return json({ name: principal.name, rights, store: store.name, refreshMs } satisfies PrincipalDocument)
  })
  return { ...route, right: 'token' }
}

function locksRoute(store: StoreAccess, pages: LockPages): Route {
  const summary = 'Locks with their holders and queues, page by page, for people.'
  return readRoute('/v1/locks', summary, { query: locksQuery, answer: operatorsLockPage }, async (call) =>
    json(await pages.read(listerOf(store, call), lockQuery(call.query, call.principal), call)),
  )
}

function overviewRoute(overview: Overview): Route {
  const summary = 'Locks sorted by contention, waiters, age or name, of the first ten thousand.'
  return readRoute('/v1/overview', summary, { query: overviewQuery, answer: overviewDocument }, async (call) =>
    json(await overview.read(call.principal, readOverviewQuery(call.query, call.principal), call)),
  )
}

function lockRoute(store: StoreAccess, history: LockHistory, environment: Environment): Route {
  const summary = 'One lock by its key, with its queue and what was seen of it in the last hour.'
  const schema = { query: lockKeyQuery, required: ['key'], answer: lockPageDocument }
  return readRoute('/v1/lock', summary, schema, async (call) => {
    const { principal, query } = call
    const { key } = readQuery(lockKeyQuery, query)
    checkListing(key, principal)
    await call.turn()
    const { keys, now } = await store.listFor(call, { key })
    call.charge(requestsWorth(keys))
    const lock = lockDocument(keys[0] ?? { key, claims: [] }, now, environment.wall())
    return json({ lock, history: history.of(lock.namespace, key) } satisfies LockPageDocument)
  })
}

function seriesRoute(series: Series, environment: Environment): Route {
  const summary = 'What was granted, lost and waited for in the last hour, minute by minute.'
  return readRoute('/v1/series', summary, { query: namespaceQuery, answer: seriesDocument }, async (call) => {
    const namespace = namespaceParameter(call.query, call.principal)
    await call.turn()
    return json(series.shownTo(call.principal, environment.wall(), namespace))
  })
}

function cyclesRoute(store: StoreAccess, environment: Environment): Route {
  const summary = 'Who waits for whom, and who waits in a cycle.'
  return readRoute('/v1/cycles', summary, { query: namespaceQuery, answer: cyclesDocument }, async (call) => {
    const { principal, query } = call
    const namespace = namespaceParameter(query, principal)
    return json(await readCycles(listerOf(store, call), environment, { principal, pace: call, namespace }))
  })
}

function changesRoute(watch: ChangeWatch): Route {
  const summary = 'Server-sent events: what is granted, released, lost and queued.'
  return readRoute(
    '/v1/changes',
    summary,
    { answer: { type: 'string' }, answerType: 'text/event-stream' },
    ({ principal, query }) => {
      readQuery({}, query)
      return events(watch.source(principal))
    },
  )
}

function auditRoute(audit: Audit): Route {
  const summary = "The evictions of this server's life, the newest first."
  return readRoute('/v1/audit', summary, { answer: auditDocument }, async (call) => {
    readQuery({}, call.query)
    await call.turn()
    const evictions = audit.seenBy(call.principal)
    call.charge(Math.floor(evictions.length / evictionsPerRequest))
    return json({ evictions })
  })
}

function evictionsRoute(context: EvictionContext): Route {
  return {
    method: 'POST',
    path: '/v1/evictions',
    right: 'evict',
    summary: 'Ends one holder, by key and fence, and says what became of it.',
    schema: { body: evictionBody, answer: auditEntry },
    handle: async (call) => json(await evictAndAudit(context, call, readEviction(call.body))),
  }
}

/** The store as a caller reads it, in its turn. */
function listerOf(store: StoreAccess, caller: Caller): Pick<LockDriver, 'list'> {
  return { list: (query) => store.listFor(caller, query) }
}

/** A route that only reads. */
function readRoute(
  path: string,
  summary: string,
  schema: RouteSchema,
  handle: (call: Call) => ReturnType<Route['handle']>,
): Route {
  return { method: 'GET', path, right: 'read', summary, schema, handle }
}
