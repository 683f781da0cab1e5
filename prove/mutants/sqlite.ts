import type { Mutants } from './mutant.ts'

const file = (name: string): string => `src/drivers/sqlite/${name}.ts`
const byRule = ['unit/sqlite-edges', 'unit/sqlite-shortcut', 'unit/sqlite-conformance', 'unit/sqlite-renewal'] as const

/** The SQLite store: the rule in a transaction, and its shortcuts. */
export const sqlite: Mutants = {
  'SQLite: the clock is read before the transaction has begun': {
    file: file('transaction-writer'),
    find: '  statements.begin.run()\n  let result: Result\n',
    replace:
      '  const early = new RowObserver(self, statements, "may write").now\n  self = { ...self, name: self.name, stamp: self.stamp, sightClock: self.sightClock, now: () => early, wall: () => self.wall(), isGone: (stamp) => self.isGone(stamp) }\n  statements.begin.run()\n  let result: Result\n',
    foundBy: ['unit/sqlite-transaction', 'integration/sqlite-faults'],
  },
  'SQLite: a commit in doubt is answered as done': {
    file: file('transaction-writer'),
    find: 'return { result, notifications: [], doubt: error }',
    replace: 'return { result, notifications: writer.notifications }',
    foundBy: ['unit/sqlite-transaction', 'unit/sqlite-faults', 'integration/sqlite-faults'],
  },
  'SQLite: a commit that wrote nothing leaves the claim in doubt': {
    file: file('transaction-writer'),
    find: '    if (wroteNothing(error)) throw error\n',
    replace: '',
    foundBy: ['unit/sqlite-transaction', 'unit/sqlite-faults', 'integration/sqlite-faults'],
  },
  'SQLite: the fence of a grant is not stored': {
    file: file('transaction-writer'),
    find: '      counters.fence = verdict.lastFence\n      this.#countersChanged = true',
    replace: '      counters.fence = verdict.lastFence',
    foundBy: byRule,
  },
  'SQLite: nothing is kept through a crash (synchronous = off)': {
    file: file('connection'),
    find: 'pragma synchronous = normal;',
    replace: 'pragma synchronous = off;',
    foundBy: [
      'unit/sqlite-faults',
      'unit/sqlite-transaction',
      'integration/sqlite-faults',
      'integration/sqlite-one-log',
    ],
  },
  'SQLite: a transaction begins as a reader': {
    file: file('statements'),
    find: "begin: command('begin immediate'),",
    replace: "begin: command('begin'),",
    foundBy: ['unit/sqlite-transaction'],
  },
  'SQLite: an expired first waiter is promoted': {
    file: file('shortcut'),
    find: "if (ttlMs <= 0 || ttlMs > (next['ttl_ms'] as number)) return false",
    replace: "if (ttlMs > (next['ttl_ms'] as number)) return false",
    foundBy: byRule,
  },
  'SQLite: a first waiter from a time to come keeps its stretched lease': {
    file: file('shortcut'),
    find: "if (ttlMs <= 0 || ttlMs > (next['ttl_ms'] as number)) return false",
    replace: 'if (ttlMs <= 0) return false',
    foundBy: byRule,
  },
  'SQLite: a waiter whose process died is granted': {
    file: file('shortcut'),
    find: "  if (next['detached'] === 0 && observer.hasDied(stamp)) return false\n",
    replace: '',
    foundBy: ['unit/sqlite-shortcut', 'unit/sqlite-death-watch', 'integration-alone/sqlite-processes'],
  },
  'SQLite: a hand-over does not lift the fence to the clock': {
    file: file('shortcut'),
    find: "nextFence(next['fence'] as number, observer.fenceFloor)",
    replace: "nextFence(next['fence'] as number, 0)",
    foundBy: byRule,
  },
  'SQLite: a hand-over passes the lock on beside another holder': {
    file: file('shortcut'),
    find: "if (next['shared'] === 1 || next['remembered'] === 1) return false",
    replace: "if (next['remembered'] === 1) return false",
    foundBy: byRule,
  },
  'SQLite: a hand-over overlooks waiters on ranges': {
    file: file('shortcut'),
    find: "if (next === undefined || next['plain'] === 0 || next['ranged'] === 1) return false",
    replace: "if (next === undefined || next['plain'] === 0) return false",
    foundBy: byRule,
  },
  'SQLite: a hand-over forgets an unclean end': {
    file: file('shortcut'),
    find: "if (next['shared'] === 1 || next['remembered'] === 1) return false",
    replace: "if (next['shared'] === 1) return false",
    foundBy: byRule,
  },
  'SQLite: a hand-over to another boot': {
    file: file('shortcut'),
    find: '  if (!stamp.startsWith(`${boot}_`)) return false\n',
    replace: '',
    foundBy: ['unit/sqlite-boots', ...byRule],
  },
  'SQLite: a holder may hand over at its exact end': {
    file: file('statements'),
    find: 'where key = ?1 and id = ?2 and stamp = ?3 and expires_at > ?4\n      returning fence`),\n\n    // More',
    replace: 'where key = ?1 and id = ?2 and stamp = ?3 and expires_at >= ?4\n      returning fence`),\n\n    // More',
    foundBy: byRule,
  },
  'SQLite: a renewal at the exact end of its lease': {
    file: file('statements'),
    find: 'stamp = ?3 and expires_at > ?4 and expires_at - ?4 <= ttl_ms and ttl_ms = ?5',
    replace: 'stamp = ?3 and expires_at >= ?4 and expires_at - ?4 <= ttl_ms and ttl_ms = ?5',
    foundBy: ['unit/sqlite-renewal', ...byRule],
  },
  'SQLite: a renewal past the longest hold': {
    file: file('statements'),
    find: '        and (terms is null or instr(terms, \'"maxHoldMs"\') = 0)\n',
    replace: '',
    foundBy: ['unit/sqlite-renewal', ...byRule],
  },
  'SQLite: a renewal of a holder that was asked to leave': {
    file: file('statements'),
    find: 'and died = 0 and leaving is null and succession is null',
    replace: 'and died = 0 and succession is null',
    foundBy: ['unit/sqlite-renewal', ...byRule],
  },
  'SQLite: a renewal leaves the grace behind': {
    file: file('statements'),
    find: 'ends_at = ends_at - expires_at + ?4 + ?5',
    replace: 'ends_at = ?4 + ?5',
    foundBy: ['unit/sqlite-renewal', ...byRule],
  },
  'SQLite: a claim on a key with waiters is granted at once': {
    file: file('statements'),
    find: '        and not exists (select 1 from waiting where key = ?1)\n        and not exists (select 1 from endings',
    replace: '        and not exists (select 1 from endings',
    foundBy: byRule,
  },
  'SQLite: an idle key is claimed with a fence below the clock': {
    file: file('statements'),
    find: 'max(fence + 1, ?10)',
    replace: 'fence + 1',
    foundBy: byRule,
  },
  'SQLite: a release at the exact end is one in time': {
    file: file('statements'),
    find: 'where key = ? and id = ? and stamp = ? and expires_at > ?\n        and not exists (select 1 from waiting where waiting.key',
    replace:
      'where key = ? and id = ? and stamp = ? and expires_at >= ?\n        and not exists (select 1 from waiting where waiting.key',
    foundBy: byRule,
  },
  'SQLite: the counters do not follow a claim on an idle key': {
    file: 'src/drivers/sqlite/schema.sql',
    find: 'update held set fence = max(fence, new.fence), turn = new.turn where',
    replace: 'update held set turn = new.turn where',
    foundBy: byRule,
  },
  'SQLite: the fence of a hand-over is not counted': {
    file: 'src/drivers/sqlite/schema.sql',
    find: 'update held set fence = new.fence, turn = new.turn where',
    replace: 'update held set turn = new.turn where',
    foundBy: byRule,
  },
  'SQLite: a holder of another boot is judged by our clock': {
    file: file('row-observer'),
    find: 'return row.stamp !== this.#self.name && parseStamp(row.stamp)?.boot !== this.#self.stamp.boot',
    replace: 'return false',
    foundBy: ['unit/sqlite-boots'],
  },
  'SQLite: a claim of another boot that was renewed counts from when it was first seen': {
    file: file('row-observer'),
    find: "if (sighting !== undefined && sighting['renewal_count'] === row.renewalCount) {",
    replace: 'if (sighting !== undefined) {',
    foundBy: ['unit/sqlite-boots'],
  },
  'SQLite: the death of a detached claim’s process ends it': {
    file: file('row-observer'),
    find: 'row.died || (!row.detached && this.hasDied(row.stamp))',
    replace: 'row.died || this.hasDied(row.stamp)',
    foundBy: ['unit/sqlite-death-watch', 'unit/sqlite-boots', 'integration-alone/sqlite-processes'],
  },
  'SQLite: a copy of the file is as old as the file it was made of': {
    file: file('birth'),
    find: 'const since = isCopy || birth.bornAt === 0 ? clock.wall() : birth.bornAt',
    replace: 'const since = birth.bornAt === 0 ? clock.wall() : birth.bornAt',
    foundBy: ['unit/sqlite-boots', 'integration/sqlite-replaced', 'integration/sqlite-faults'],
  },
  'SQLite: leases in a copy of the file end by the clock of the copied one': {
    file: file('birth'),
    find: '        renewAll(database, boot, Math.floor(clock.now()))\n',
    replace: '',
    foundBy: ['unit/sqlite-boots', 'integration/sqlite-replaced', 'integration/sqlite-faults'],
  },
  'SQLite: after the file was replaced no gap is told': {
    file: file('driver'),
    find: '    this.#disconnect()\n    this.#listeners.gap()\n  }\n',
    replace: '    this.#disconnect()\n  }\n',
    foundBy: ['integration/sqlite-replaced > whoever waits is told'],
  },
  'SQLite: a holder does not hear that its file was replaced': {
    file: file('driver'),
    find: "this.#notify(row['key'] as string, row['id'] as string, lostWithFile)",
    replace: "String(row['key'])",
    foundBy: ['integration/sqlite-replaced'],
  },
  'SQLite: a file that was replaced is still written': {
    file: file('driver'),
    find: '      !isSameFile(identify(this.#named), identity) ||\n',
    replace: '',
    foundBy: ['integration/sqlite-replaced > without its log'],
  },
  'SQLite: the death of a waiter’s process is not looked for': {
    file: file('death-watch'),
    find: '          this.#options.onDeath(key, id)\n',
    replace: '',
    foundBy: ['unit/sqlite-death-watch'],
  },
}
