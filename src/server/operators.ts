import { quietLogger, type Logger } from '../api/client/logger.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { systemEnvironment, type Environment } from '../core/time/environment.ts'
import {
  accessDocument,
  auditDocument,
  auditEntry,
  cyclesDocument,
  grantDocument,
  operatorsLockPage,
  type AccessDocument,
  type GrantDocument,
} from '../dashboard/documents.ts'
import { events, json, type Call, type Route, type RouteSchema } from './contract/call.ts'
import { Audit, describeStatus, entryOf, evictHolder, evictionBody, readEviction } from './operators/evictions.ts'
import { ChangeWatch, expensiveStoreMs } from './operators/change-watch.ts'
import { readCycles } from './operators/cycles.ts'
import { LockPages, lockQuery, locksQuery, namespaceParameter, namespaceQuery } from './operators/locks.ts'
import { readQuery } from './contract/query.ts'
import { pageRoutes } from './operators/page.ts'
import type { StoreAccess } from './store/store-facade.ts'

/** The options of `dashboard`. */
export interface DashboardOptions {
  /**
   * Told of every eviction.
   *
   * @default nobody is told
   */
  readonly logger?: Logger | undefined
  /** Time, for simulators and tests. */
  readonly environment?: Environment | undefined
}

const dashboardNames: OptionNames<DashboardOptions> = { logger: true, environment: true }

const refreshDefaultMs = 5000

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
    store.onEviction(({ grant, request, status }) => {
      audit.record(entryOf(environment, grant, request, describeStatus(status)))
    })
    const watch = new ChangeWatch({ store, environment, evicted: (key, fence) => audit.find(key, fence) })
    return [
      accessRoute,
      grantRoute(store),
      locksRoute(new LockPages(store, environment)),
      cyclesRoute(store, environment),
      changesRoute(watch),
      auditRoute(audit),
      evictionsRoute(store, environment, audit),
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
  // Where no tokens are asked for, anybody may do everything.
  handle: ({ grant }) => json({ wantsToken: grant.rights.size === 0 } satisfies AccessDocument),
}

function grantRoute(store: StoreAccess): Route {
  const summary = 'What the token in hand may do.'
  const route = look('/v1/grant', summary, { answer: grantDocument }, ({ grant, query }) => {
    readQuery({}, query)
    const rights = [...grant.rights].toSorted()
    const refreshMs = Math.max(refreshDefaultMs, expensiveStoreMs(store))
    return json({ name: grant.name, rights, store: store.name, refreshMs } satisfies GrantDocument)
  })
  return { ...route, right: 'token' }
}

function locksRoute(pages: LockPages): Route {
  const summary = 'Locks with their holders and queues, page by page, for people.'
  return look('/v1/locks', summary, { query: locksQuery, answer: operatorsLockPage }, async ({ grant, query }) =>
    json(await pages.read(grant, lockQuery(query, grant))),
  )
}

function cyclesRoute(store: StoreAccess, environment: Environment): Route {
  const summary = 'Who waits for whom, and who waits in a cycle.'
  return look('/v1/cycles', summary, { query: namespaceQuery, answer: cyclesDocument }, async ({ grant, query }) => {
    return json(await readCycles(store, environment, grant, namespaceParameter(query, grant)))
  })
}

function changesRoute(watch: ChangeWatch): Route {
  const summary = 'Server-sent events: what is granted, released, lost and queued.'
  return look(
    '/v1/changes',
    summary,
    { answer: { type: 'string' }, answerType: 'text/event-stream' },
    ({ grant, query }) => {
      readQuery({}, query)
      return events(watch.source(grant))
    },
  )
}

function auditRoute(audit: Audit): Route {
  const summary = "The evictions of this server's life, the newest first."
  return look('/v1/audit', summary, { answer: auditDocument }, ({ grant, query }) => {
    readQuery({}, query)
    return json({ evictions: audit.seenBy(grant) })
  })
}

function evictionsRoute(store: StoreAccess, environment: Environment, audit: Audit): Route {
  return {
    method: 'POST',
    path: '/v1/evictions',
    right: 'evict',
    summary: 'Ends one holder, by key and fence, and says what became of it.',
    schema: { body: evictionBody, answer: auditEntry },
    handle: async ({ grant, body }) => json(await evictHolder(store, environment, audit, grant, readEviction(body))),
  }
}

/** A route that only looks. */
function look(
  path: string,
  summary: string,
  schema: RouteSchema,
  handle: (call: Call) => ReturnType<Route['handle']>,
): Route {
  return { method: 'GET', path, right: 'look', summary, schema, handle }
}
