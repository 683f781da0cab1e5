import type { Mutants } from './mutant.ts'

const file = (name: string): string => `src/drivers/mysql/${name}.ts`
const faults = (title: string): readonly [string] => [`integration/mysql-faults > ${title}`]
const guesses = (title: string): readonly [string] => [`integration/mysql-guesses > ${title}`]
const crowd = faults('that another was quicker with|many clients that change the same keys')

/** MySQL and MariaDB: a row a key, and sessions of every kind. */
export const mysql: Mutants = {
  'MySQL: any of the last revisions passes for the newest': {
    file: file('statements'),
    find: 'const isOurs = `${newestRevision} = substring(values(\\`revisions\\`), ${revisionLength + 1})`',
    replace: 'const isOurs = `locate(substring(values(\\`revisions\\`), ${revisionLength + 1}), \\`revisions\\`) > 0`',
    foundBy: crowd,
  },
  'MySQL: the new revision stands before the columns that compare it': {
    file: file('statements'),
    find: "update ${changes.join(', ')}, ${set('revisions', kept)}${answers}",
    replace: "update ${set('revisions', kept)}, ${changes.join(', ')}${answers}",
    foundBy: crowd,
  },
  'MySQL: a row that is there already is written over by a first claim': {
    file: file('statements'),
    find: 'const set = (column: string, value: string): string => `\\`${column}\\` = if(${isOurs},',
    replace:
      "const set = (column: string, value: string): string => `\\`${column}\\` = if(${isOurs} or substring(values(\\`revisions\\`), ${revisionLength + 1}) = x'${Buffer.from(noRevision).toString('hex')}',",
    foundBy: crowd,
  },
  'MySQL: only the newest revision of a row counts as written': {
    file: file('store'),
    find: '  for (let at = 0; at < kept.length; at += revisionLength) if (kept.startsWith(revision, at)) return true\n  return false\n',
    replace: '  return kept.startsWith(revision)\n',
    foundBy: faults('another has overwritten'),
  },
  'MySQL: a row that was left alone counts as written': {
    file: file('store'),
    find: 'if (affectedRows === 2 * rows.length && rows.every',
    replace: 'if (affectedRows >= rows.length && rows.every',
    foundBy: faults('that another was quicker with'),
  },
  'MySQL: two drivers make the same revisions': {
    file: file('driver'),
    find: "const own = randomBytes(8).toString('hex')",
    replace: "const own = Buffer.alloc(8).toString('hex')",
    foundBy: crowd,
  },
  'MySQL: a write whose answer was lost is thought to have failed': {
    file: file('send'),
    find: 'return rows.map(() => ({ unknown: mysqlError(error) }))',
    replace: "return rows.map(() => 'conflict' as const)",
    foundBy: faults('the reply to a write is lost'),
  },
  'MySQL: a connection that still waits for an answer is lent again': {
    file: file('clients'),
    find: '      this.#isSpoilt ||= !sparesMysqlConnection(error)\n',
    replace: '',
    foundBy: faults('what others do on the server|the server stands still|lock'),
  },
  'MySQL: an open transaction is believed': {
    file: file('server-checks'),
    find: '  if (isSwitchedOn(inTransaction)) return inOpenTransaction()\n',
    replace: '',
    foundBy: faults('a transaction that was left open'),
  },
  'MySQL: an open transaction is believed where a reading does not tell': {
    file: file('store'),
    find: 'this.#asksForFlags = !this.#isMariadb && !clients.isOwned',
    replace: 'this.#asksForFlags = false',
    foundBy: faults('a transaction that was left open'),
  },
  'MySQL: autocommit is thought on': {
    file: file('store'),
    find: 'if (commitsByHand(textOfBytes(session))) {',
    replace: 'if (false) {',
    foundBy: faults('autocommit = 0'),
  },
  'MySQL: what others left uncommitted is committed': {
    file: file('clients'),
    find: "    await this.query('rollback', withinMs)\n",
    replace: '',
    foundBy: faults('what somebody left uncommitted'),
  },
  'MySQL: a session is given back that commits at once': {
    file: file('clients'),
    find: "    if (this.#hadAutocommitOff && !this.#isSpoilt) await this.query('set autocommit = 0', withinMs).catch(() => {})\n",
    replace: '',
    foundBy: faults('the session is given back'),
  },
  'MySQL: the clock is read as local time': {
    file: file('statements'),
    find: "`timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))`",
    replace: "`timestampdiff(microsecond, '1970-01-01', now(6))`",
    foundBy: faults('in another time zone sees the same time'),
  },
  'MySQL: a clock that was fixed is believed': {
    file: file('server-checks'),
    find: 'const isFixed = lagMs > lagMaxMs + tookMs * (1 + driftRate)',
    replace: 'const isFixed = false',
    foundBy: faults('a session is refused whose clock'),
  },
  'MySQL: what is not committed is believed': {
    file: file('server-checks'),
    find: "if (isolation === 'READ-UNCOMMITTED')",
    replace: "if (isolation === 'READ UNCOMMITTED')",
    foundBy: faults('that shows what is not committed'),
  },
  'MySQL: a server that takes no writes is asked': {
    file: file('server-checks'),
    find: 'if (isSwitchedOn(isReadOnly) || isSwitchedOn(isEngineReadOnly)) {',
    replace: 'if (isSwitchedOn(isEngineReadOnly)) {',
    foundBy: faults('that takes no writes is refused'),
  },
  'MySQL: the table is that of whichever database a session is in': {
    file: file('statements'),
    find: 'this.#table = `${tableIdentifier(database)}.${tableIdentifier(table)}`',
    replace: 'this.#table = tableIdentifier(table)',
    foundBy: faults('the database that somebody has left it in'),
  },
  'MySQL: a padded document is cut': {
    file: file('statements'),
    find: 'Math.max(least, Math.ceil(bytes / step) * step)',
    replace: 'Math.max(least, Math.floor(bytes / step) * step)',
    foundBy: crowd,
  },
  'MySQL: a document is padded by its letters and not by its bytes': {
    file: file('statements'),
    find: 'padded(literal(document), Buffer.byteLength(document))',
    replace: 'padded(literal(document), document.length)',
    foundBy: faults('a document of any letters and length'),
  },
  'MySQL: a document that is granted without a reading is padded by its letters': {
    file: file('statements'),
    find: 'Math.max(most, Buffer.byteLength(document)), 0)',
    replace: 'Math.max(most, document.length), 0)',
    foundBy: faults('a document of any letters and length'),
  },
  'MySQL: a node of a cluster is read before it has what others answered': {
    file: file('statements'),
    find: "this.#dialect.isGalera ? 'set statement wsrep_sync_wait = 1 for ' : ''",
    replace: "''",
    foundBy: ['long/mysql-galera > what one node has answered'],
  },
  'MySQL: a row that was taken again is tidied away': {
    file: file('statements'),
    find: ' and \\`forget_hour\\` < ${hour}`\n  }\n\n  /** The engine',
    replace: '`\n  }\n\n  /** The engine',
    foundBy: faults('what is tidied away'),
  },
  'MySQL: a row is tidied away during its grace': {
    file: file('statements'),
    find: 'expiresAt + claim.graceMs + ttlMs)',
    replace: 'expiresAt + ttlMs)',
    foundBy: faults('what is tidied away'),
  },
  'MySQL: a fence ahead of the clock is tidied away': {
    file: file('statements'),
    find: 'Math.max(lastFence / 1000, ended?.until ?? 0)',
    replace: 'Math.max(0, ended?.until ?? 0)',
    foundBy: faults('what is tidied away'),
  },
  'MySQL: a copy of a table is as old as the table': {
    file: file('store'),
    find: 'if (bornAt === place && since <= now) {',
    replace: 'if (bornAt !== undefined && since <= now) {',
    foundBy: faults('that is restored from a dump'),
  },
  'MySQL: a server that was started on an older copy has old data': {
    file: file('store'),
    find: 'Math.floor(now - Math.max(since, startedAt))',
    replace: 'Math.floor(now - since)',
    foundBy: faults('is killed and started again'),
  },
  'MySQL: a queue that no statement can carry fails its neighbours': {
    file: file('send'),
    find: '(bytes + size > bytesMax || slice.length === rowsMax)',
    replace: 'slice.length === rowsMax',
    foundBy: faults('a queue that no statement can carry'),
  },
  'MySQL: a record that is damaged is a free lock': {
    file: file('stored-document'),
    find: 'claims: undefined as unknown as []',
    replace: 'claims: []',
    foundBy: faults('a record that is damaged'),
  },
  'MySQL: a table that may lose half of a batch is taken': {
    file: file('store'),
    find: "if (engine === '' || engine.toLowerCase() === 'innodb') return",
    replace: 'if (true) return',
    foundBy: faults('of another engine is refused'),
  },
  'MySQL: a row is taken without a reading whatever was written since': {
    file: file('statements'),
    find: " and (${asExpected.join(' or ')})",
    replace: '',
    foundBy: guesses('what another client has done since'),
  },
  'MySQL: a revision that is expected of one row passes for another': {
    file: file('statements'),
    find: '`(${newestRevision} = ${literal(expected)} and ${isName(names)})`',
    replace: '`(${newestRevision} = ${literal(expected)})`',
    foundBy: guesses('a statement changes a row only if'),
  },
  'MySQL: a claim that began by a fixed clock is answered as held': {
    file: file('store'),
    find: 'areWritten.includes(true) ? fixedClock(lagMs, tookMs) : undefined',
    replace: 'undefined',
    foundBy: guesses('with a clock that was fixed'),
  },
  'MySQL: a claim is granted by a clock that is far off': {
    file: file('statements'),
    find: ' and ${lag} < ${grantLagMaxMs * 1000}',
    replace: '',
    foundBy: guesses('with a clock that was fixed'),
  },
  'MySQL: a fence that is granted without a reading is the clock, whatever the last one was': {
    file: file('statements'),
    find: ' and \\`last_fence\\` < ${at}',
    replace: '',
    foundBy: guesses('a last fence that is ahead'),
  },
  'MySQL: a row is changed without a reading on whatever session': {
    file: file('statements'),
    find: ' and ${this.#isFit}`',
    replace: '`',
    foundBy: guesses('that reads what is not committed|a server that takes no writes'),
  },
  'MySQL: a server whose read_only has a name is thought to take writes': {
    file: file('statements'),
    find: "`concat(${name}) in (${literals(['0', 'OFF'])})`",
    replace: '`${name} = 0`',
    foundBy: guesses('a server whose read_only is'),
  },
  'MySQL: a claim is granted whenever it reaches the server': {
    file: file('statements'),
    find: 'clockForTests === undefined ? Math.min(within, sinceMax) : sinceMax',
    replace: 'sinceMax',
    foundBy: guesses('a claim that reaches the server after'),
  },
  'MySQL: one row that was written counts for all': {
    file: file('store'),
    find: 'if (affectedRows === guesses.length)',
    replace: 'if (affectedRows > 0)',
    foundBy: guesses('what another client has done since'),
  },
  'MySQL: requests for one key overtake each other': {
    file: file('guessed-changes'),
    find: 'changes.filter(({ guess }) => !repeated.has(guess.name))',
    replace: 'changes',
    foundBy: guesses('several requests for one key'),
  },
  'MySQL: whoever releases empties the row': {
    file: file('guessed-changes'),
    find: 'sole?.id === id ?',
    replace: 'sole !== undefined ?',
    foundBy: guesses('a claim that another has replaced'),
  },
  'MySQL: a row that has a claim is taken': {
    file: file('guessed-changes'),
    find: "request.op !== 'claim' || sole !== undefined",
    replace: "request.op !== 'claim'",
    foundBy: guesses('a claim that was granted so'),
  },
  'MySQL: an end that must be remembered is forgotten': {
    file: file('send'),
    find: 'document.ended === undefined && others',
    replace: 'others',
    foundBy: guesses('an eviction is told'),
  },
  'MySQL: a lease that is over is released without a reading': {
    file: file('statements'),
    find: ' and ${clockForTests ?? clock} + ${lag} < ${until * 1000}`',
    replace: '`',
    foundBy: guesses('a lease that may be over|a release that waited'),
  },
  'MySQL: a release that waits on the server is judged by when it was asked': {
    file: file('statements'),
    find: '${clockForTests ?? clock} + ${lag} < ${until',
    replace: '${clockForTests ?? clock} < ${until',
    foundBy: guesses('a release that waited for others'),
  },
  'MySQL: a statement that was delayed tells a later fence': {
    file: file('statements'),
    find: 'least(${lag} div 1000, ${lagSteps - 1})',
    replace: '${lag} div 1000',
    foundBy: guesses('a statement that the server delays'),
  },
  'MySQL: a release whose connection ended is sent again, and nothing is found of its claim': {
    file: file('send'),
    find: 'return this.#found(changes, revision).catch(() => changes.map(() => undefined))',
    replace: 'return changes.map(() => undefined)',
    foundBy: guesses('the connection ends with the statement of a release'),
  },
}
