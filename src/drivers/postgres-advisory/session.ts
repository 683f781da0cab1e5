import { randomBytes } from 'node:crypto'
import { LeaseholdError } from '../../core/errors.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'
import type { Connections, PinnedConnection, PgRow } from '../postgres/connections.ts'
import { inSchema } from '../postgres/schema.ts'
import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import { advisoryKey } from './key.ts'
import { collision } from './plan.ts'

/** What can be done with a lock: try for it, give it back, or draw one more fence while holding it. */
export type StepKind = 'lock' | 'lock shared' | 'unlock' | 'unlock shared' | 'draw'

/** One step of one lock. */
export interface SessionStep {
  readonly kind: StepKind
  readonly hash: string
}

const kindNumbers: Readonly<Record<StepKind, number>> = {
  lock: 1,
  'lock shared': 2,
  unlock: 3,
  'unlock shared': 4,
  draw: 5,
}

function isUnlock(kind: StepKind): boolean {
  return kind === 'unlock' || kind === 'unlock shared'
}

/** How often to check for a pooler, which may by chance give us the same session twice. */
const poolerProbes = 3
/** How many statements in a row must run in one session. */
const statementsInARow = 5
const poolerProbeMs = 2000

/**
 * Carries out the steps in order and answers a digit for each: done or not. Then one fence for all, as they are for different
 * keys, drawn once the locks are taken. If the session is not the one we began, nothing is done, and there is no row.
 */
const stepsSql = `
  select coalesce(done.digits, '') || ' ' || case when $4::boolean then leasehold.advisory_draw() else 0 end
    from (
      select string_agg(case
          when case u.step
            when 1 then pg_try_advisory_lock(u.hash)
            when 2 then pg_try_advisory_lock_shared(u.hash)
            when 3 then pg_advisory_unlock(u.hash)
            when 4 then pg_advisory_unlock_shared(u.hash)
            else true
          end then '1' else '0' end, '') as digits
        from (select where current_setting('leasehold.session', true) = $1) as guard,
             unnest($2::text::integer[], $3::text::bigint[]) as u (step, hash)
    ) as done
   where current_setting('leasehold.session', true) = $1`

/** One session of the server that is surely ours alone. Its locks end with it. */
export class AdvisorySession {
  /** The id of the server's process. */
  readonly processId: number
  readonly #pinned: PinnedConnection
  readonly #schema: string
  readonly #nonce: string
  readonly #steps: string

  private constructor(pinned: PinnedConnection, processId: number, schema: string, nonce: string) {
    this.processId = processId
    this.#pinned = pinned
    this.#schema = schema
    this.#nonce = nonce
    this.#steps = inSchema(stepsSql, schema)
  }

  /** Begins a session that the server ends after `ttlMs` of silence. `onLost` is called when it has ended by itself. */
  static async begin(
    connections: Connections,
    options: { readonly schema: string; readonly ttlMs: number; readonly withinMs: number },
    onLost: () => void,
  ): Promise<AdvisorySession> {
    const { schema, ttlMs, withinMs } = options
    let begun = false
    const pinned = await connections.pin(() => begun && onLost())
    try {
      await refusePooler(connections, pinned)
      const nonce = randomBytes(16).toString('hex')
      const sql = inSchema('select leasehold.advisory_begin($1::text, $2::bigint)', schema)
      await pinned.query(sql, [nonce, ttlMs], withinMs)
      const session = new AdvisorySession(pinned, await sessionOf(pinned), schema, nonce)
      begun = true
      return session
    } catch (error) {
      await pinned.close().catch(() => {})
      throw error
    }
  }

  /** Carries out the steps, of different keys, in order. Gives for each try its fence, or 0 if another session has the lock. */
  async carryOut(steps: readonly SessionStep[], withinMs: number): Promise<readonly number[]> {
    let numbers = ''
    let hashes = ''
    let draws = false
    for (const { kind, hash } of steps) {
      const comma = numbers === '' ? '' : ','
      numbers += comma + kindNumbers[kind]
      hashes += comma + hash
      draws ||= !isUnlock(kind)
    }
    const answer = await this.#pinned.ask(this.#steps, [this.#nonce, `{${numbers}}`, `{${hashes}}`, draws], withinMs)
    if (answer === '') throw new Error('The session is not the one that was begun')
    const [digits, fence] = answer.split(' ')
    return steps.map((_, index) => (digits?.[index] === '1' ? Number(fence) : 0))
  }

  /** Lifts all later fences to at least this number. */
  async lift(atLeast: number, withinMs: number): Promise<void> {
    const sql = inSchema('select leasehold.advisory_lift($1::bigint)', this.#schema)
    await this.#pinned.query(sql, [atLeast], withinMs)
  }

  /**
   * Gives back the locks of these steps, some of which may have been taken before the server refused the rest: a lock of the
   * session outlives the transaction that took it.
   */
  async undo(steps: readonly SessionStep[], withinMs: number): Promise<void> {
    const unlocks = steps
      .filter(({ kind }) => kind !== 'draw')
      .map(({ kind, hash }): SessionStep => ({ kind: kind.endsWith('shared') ? 'unlock shared' : 'unlock', hash }))
    await this.carryOut(unlocks, withinMs)
  }

  /** Notes the runner of this session, for listings. */
  async noteRunner(runner: string, withinMs: number): Promise<void> {
    const sql = `
      insert into leasehold.advisory_sessions (process_id, started_at, runner)
      select pid, backend_start, $1 from pg_stat_activity where pid = pg_backend_pid()
          on conflict do nothing`
    await this.#pinned.query(inSchema(sql, this.#schema), [runner], withinMs)
  }

  /** Notes the names behind hashes. Gives those hashes that stand for another name already, with that name. */
  async noteNames(names: ReadonlyMap<string, string>, withinMs: number): Promise<ReadonlyMap<string, string>> {
    const sql = `
      insert into leasehold.advisory_names as n (hash, key)
      select hash::bigint, key from json_to_recordset($1::text::json) as noted (hash text, key text) order by hash
          on conflict (hash) do update set seen_at = case when n.key = excluded.key then now() else n.seen_at end
      returning hash::text as hash, key`
    const noted = JSON.stringify([...names].map(([hash, key]) => ({ hash, key })))
    const rows = await this.#pinned.query(inSchema(sql, this.#schema), [noted], withinMs)
    const known = (row: PgRow): [string, string] => [row['hash'] as string, row['key'] as string]
    return new Map(rows.map(known).filter(([hash, key]) => names.get(hash) !== key))
  }

  close(): Promise<void> {
    return this.#pinned.close()
  }
}

/**
 * Behind a pooler in transaction mode every statement may run in another session, and a lock would be stranded in a session that
 * is not ours. Three signs of that: our statements run in different sessions (the pooler gives them out in turn); a second
 * connection gets our session (it gives out the last used first); or either happens while the second has a transaction open.
 */
async function refusePooler(connections: Connections, pinned: PinnedConnection): Promise<void> {
  const session = await sessionOf(pinned)
  for (let asked = 1; asked < statementsInARow; asked += 1) {
    if ((await sessionOf(pinned)) !== session) throw pooled()
  }
  const second = await connections.pin(() => {})
  try {
    if ((await sessionOf(second)) === session) throw pooled()
    for (let probe = 0; probe < poolerProbes; probe += 1) {
      if (!(await areApart(pinned, session, second))) throw pooled()
    }
  } finally {
    await second.close().catch(() => {})
  }
}

async function areApart(pinned: PinnedConnection, session: number, second: PinnedConnection): Promise<boolean> {
  try {
    await second.query('begin', [], poolerProbeMs)
    const secondSession = await sessionOf(second)
    const after = await sessionOf(pinned)
    await second.query('rollback', [], poolerProbeMs)
    return session === after && session !== secondSession
  } catch (error) {
    // No answer while the second has its transaction: the pooler has no other session to give.
    if (error instanceof CallTimedOut) return false
    throw error
  }
}

async function sessionOf(pinned: PinnedConnection): Promise<number> {
  const [row] = await pinned.query('select pg_backend_pid() as process_id', [], poolerProbeMs)
  return row?.['process_id'] as number
}

function pooled(): LeaseholdError {
  const what = 'Session locks cannot be held through a pooler in transaction mode.'
  return new LeaseholdError('UNAVAILABLE', `${what} Connect to the server itself, or use leasehold/postgres.`, {
    reason: 'configuration',
  })
}

/** How long a name counts as noted: the database forgets it an hour after it was noted. */
const notedForMs = 600_000
const notedMax = 50_000

/** The names that are noted in the database beside their hashes. Most claims are for such names. */
export class NotedNames {
  readonly #notedAt = new Map<string, number>()
  readonly #schema: string

  constructor(schema: string) {
    this.#schema = schema
  }

  /** Notes the names of claims that are not noted yet. Answers claims whose hash stands for another name. */
  async note(
    session: AdvisorySession,
    requests: readonly Request[],
    statuses: (ClaimStatus | undefined)[],
    withinMs: number,
  ): Promise<void> {
    const now = performance.now()
    let names: Map<string, string> | undefined
    for (const request of requests) {
      if (request.op !== 'claim') continue
      const { key } = request.claim
      const isNoted = now - (this.#notedAt.get(key) ?? -Infinity) <= notedForMs
      if (!isNoted) (names ??= new Map()).set(advisoryKey(key, this.#schema), key)
    }
    if (names === undefined) return
    const taken = await session.noteNames(names, withinMs)
    if (this.#notedAt.size > notedMax) this.#notedAt.clear()
    for (const [hash, key] of names) if (!taken.has(hash)) this.#notedAt.set(key, now)
    for (const [place, request] of requests.entries()) {
      if (request.op !== 'claim') continue
      const namesake = taken.get(advisoryKey(request.claim.key, this.#schema))
      if (namesake !== undefined) statuses[place] = collision(request.claim, namesake)
    }
  }
}
