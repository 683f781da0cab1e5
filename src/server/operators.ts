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
  type AccessDocument,
  type PrincipalDocument,
} from '../dashboard/documents.ts'
import { events, json, type Call, type Route, type RouteSchema } from './contract/call.ts'
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
import type { StoreAccess } from './store/store-facade.ts'

/** The options of `dashboard`. */
export interface DashboardOptions {
  /**
   * Receives a line for every eviction.
   *
   * @default none
   */
  readonly logger?: Logger | undefined
  /** Time, for simulators and tests. */
  readonly environment?: Environment | undefined
}

const dashboardNames: OptionNames<DashboardOptions> = { logger: true, environment: true }

const refreshDefaultMs = 5000
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
  const { logger, environment = systemEnvironment() } = options
  return (store) => {
    const audit = new Audit(logger && quietLogger(logger))
    store.onEviction(({ principal, request, status }) => {
      audit.record(auditEntryOf({ environment }, principal, request, { result: evictionResultOf(status) }))
    })
    const watch = new ChangeWatch({ store, environment, evicted: (key, fence) => audit.find(key, fence) })
    return [
      accessRoute,
      principalRoute(store),
      locksRoute(new LockPages(store, environment)),
      cyclesRoute(store, environment),
      changesRoute(watch),
      auditRoute(audit),
      evictionsRoute({ store, environment, audit }),
      ...pageRoutes(),
    ]
  }
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

function locksRoute(pages: LockPages): Route {
  const summary = 'Locks with their holders and queues, page by page, for people.'
  return readRoute('/v1/locks', summary, { query: locksQuery, answer: operatorsLockPage }, async (call) =>
    json(await pages.read(call.principal, lockQuery(call.query, call.principal), call)),
  )
}

function cyclesRoute(store: StoreAccess, environment: Environment): Route {
  const summary = 'Who waits for whom, and who waits in a cycle.'
  return readRoute('/v1/cycles', summary, { query: namespaceQuery, answer: cyclesDocument }, async (call) => {
    const { principal, query } = call
    const namespace = namespaceParameter(query, principal)
    return json(await readCycles(store, environment, { principal, pace: call, namespace }))
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

/** A route that only reads. */
function readRoute(
  path: string,
  summary: string,
  schema: RouteSchema,
  handle: (call: Call) => ReturnType<Route['handle']>,
): Route {
  return { method: 'GET', path, right: 'read', summary, schema, handle }
}
