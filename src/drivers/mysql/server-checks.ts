/** What a server and a session are like: whether locks are safe there, and what an operator should know. */
import { LeaseholdError } from '../../core/errors.ts'
import type { MysqlAnswer, MysqlValue } from './clients.ts'
import { databaseMissing, openTransaction, readOnly, UnfitSession } from './faults.ts'

/** Variables or figures of a server, by name. */
export type ServerTexts = ReadonlyMap<string, string>

export function textOfBytes(value: MysqlValue | undefined): string {
  return value?.toString() ?? ''
}

/** Pairs of a name in lower case and a value. */
export function textsByName({ rows }: MysqlAnswer): ServerTexts {
  return new Map(rows.map(([name, value]) => [textOfBytes(name).toLowerCase(), textOfBytes(value)]))
}

/** The database of a session, from which its table is not to move. */
export function databaseOf({ rows }: MysqlAnswer): string {
  const name = Buffer.from(textOfBytes(rows[0]?.[0]), 'hex').toString()
  if (name === '') throw new UnfitSession('No database selected', databaseMissing)
  return name
}

export function isSwitchedOn(value: string | undefined): boolean {
  return value !== undefined && value !== '' && value !== '0' && value.toUpperCase() !== 'OFF'
}

/** What tells this copy of the data from another: a replica, or a cluster, has a name of its own. */
export function copyNameOf(variables: ServerTexts, status: ServerTexts): string {
  const cluster = status.get('wsrep_cluster_state_uuid') ?? variables.get('group_replication_group_name') ?? ''
  if (cluster !== '') return cluster
  return ['server_uuid', 'server_id', 'hostname', 'port'].map((name) => variables.get(name) ?? '').join(' ')
}

/** Since when the data has been kept, by the server's clock, and on which copy. */
interface Birth {
  readonly since?: number
  readonly place?: string
}

/** What the first row says. */
export function birthOf(text: string): Birth {
  try {
    return (JSON.parse(text) as Birth | null) ?? {}
  } catch {
    return {}
  }
}

export function inOpenTransaction(): UnfitSession {
  return new UnfitSession('The connection was in the middle of a transaction', openTransaction)
}

/** Whether the session commits by hand, as a read says what it is like: see `MysqlStatements`. */
export function commitsByHand(session: string): boolean {
  return !isSwitchedOn(session.split(' ')[0])
}

/**
 * By how much the clocks of a session may differ that was not tampered with: the time of the statement, by a clock that runs at another
 * speed, and a little. A lease that is granted or ended by a clock that is off by more would be ended before its holder stops.
 */
const driftRate = 0.05
const lagMaxMs = 2

/** Why the session must not be used, as a read that took so long says what it is like; undefined: it may. */
export function sessionFault(session: string, tookMs: number): UnfitSession | undefined {
  const [, inTransaction, isReadOnly, isEngineReadOnly, isolation, lag] = session.split(' ')
  if (isSwitchedOn(inTransaction)) return inOpenTransaction()
  if (isSwitchedOn(isReadOnly) || isSwitchedOn(isEngineReadOnly)) {
    return new UnfitSession('The server takes no writes', readOnly)
  }
  if (isolation === 'READ-UNCOMMITTED') return unfitSetting('READ UNCOMMITTED would show locks that nobody got')
  return fixedClock(Number(lag) / 1000, tookMs)
}

/** Why the clocks of a session, which differ by so much at the end of a statement, must not be used; undefined: they may. */
export function fixedClock(lagMs: number, tookMs: number): UnfitSession | undefined {
  const isFixed = lagMs > lagMaxMs + tookMs * (1 + driftRate)
  return isFixed ? unfitSetting('its clock was fixed by SET TIMESTAMP') : undefined
}

function unfitSetting(fault: string): UnfitSession {
  return new UnfitSession(`Locks are not safe on this session: ${fault}`, {
    reason: 'configuration',
    advice: 'Give Leasehold a pool of its own, or change that setting.',
  })
}

export function refuseUnfitServer(variables: ServerTexts): void {
  const version = variables.get('version')
  if (version === undefined) throw unfitSetting('sql_select_limit cuts answers short')
  const [, major = '0', minor = '0'] = /(\d+)\.(\d+)/.exec(version.replace(/^5\.5\.5-/, '')) ?? []
  const isMariadb = /mariadb/i.test(version)
  const isNew = isMariadb ? Number(major) > 10 || (Number(major) === 10 && Number(minor) >= 5) : Number(major) >= 8
  if (!isNew) {
    throw new LeaseholdError(
      'UNSUPPORTED',
      `This server is ${version}. Locks need MySQL 8.0 or MariaDB 10.5, or newer.`,
    )
  }
}

/** What an operator should know. */
export function serverWarnings(variables: ServerTexts): readonly string[] {
  const warnings: string[] = []
  const flush = variables.get('innodb_flush_log_at_trx_commit')
  if (flush !== undefined && flush !== '1') {
    warnings.push(
      `innodb_flush_log_at_trx_commit is ${flush}: a crash may undo a grant that was answered, and two may hold a lock. Set it to 1.`,
    )
  }
  const sync = variables.get('sync_binlog')
  if (isSwitchedOn(variables.get('log_bin')) && sync !== undefined && sync !== '1') {
    warnings.push(
      `sync_binlog is ${sync}: after a crash of the machine the server undoes what its binary log lacks, also grants. Set it to 1.`,
    )
  }
  const isGroup = (variables.get('group_replication_group_name') ?? '') !== ''
  if (isSwitchedOn(variables.get('wsrep_on')) || isGroup) {
    warnings.push(
      'Each node of this cluster judges leases by its own clock. Keep the clocks together (NTP), well within a twentieth of the ttl, or name one node.',
    )
  }
  return warnings
}
