import type { Mutants } from './mutant.ts'

const leases = (name: string): string => `src/drivers/etcd/leases/${name}.ts`
const file = (name: string): string => `src/drivers/etcd/${name}.ts`
const inProcess = ['unit/etcd-claim-keeper', 'unit/etcd'] as const
const real = ['integration/etcd-leases'] as const

/** etcd: leases of the store, and who may end them. */
export const etcd: Mutants = {
  'etcd: a marker is removed at 0.9 of the ttl': {
    file: leases('claim-keeper'),
    find: 'claim.endAt = this.#end === undefined ? Infinity : now + status.ttlMs',
    replace: 'claim.endAt = this.#end === undefined ? Infinity : now + 0.9 * status.ttlMs',
    foundBy: inProcess,
  },
  'etcd: a renewal in doubt does not put off the end': {
    file: leases('claim-keeper'),
    find: "} else if (request.op === 'renew' && known !== undefined) known.endAt = Math.max(known.endAt, now + request.ttlMs)",
    replace: '}',
    foundBy: inProcess,
  },
  'etcd: a claim is ended while a request for it is under way': {
    file: leases('claim-keeper'),
    find: 'if (this.#byId.get(claim.id) !== claim || claim.requests > 0) continue',
    replace: 'if (this.#byId.get(claim.id) !== claim) continue',
    foundBy: inProcess,
  },
  'etcd: a request does not wait for the removal of its marker': {
    file: leases('claim-keeper'),
    find: '    if (removals.length > 0) await Promise.all(removals)\n',
    replace: '',
    foundBy: inProcess,
  },
  'etcd: a removal in doubt is thought done': {
    file: leases('claim-keeper'),
    find: "      if (outcome === 'removed') {",
    replace: '      if (outcome !== undefined) {',
    foundBy: inProcess,
  },
  'etcd: a conversion ends before the lease that it waits to replace': {
    file: leases('claim-keeper'),
    find: 'return Math.max(claim.endAt, replaced?.endAt ?? -Infinity)',
    replace: 'return claim.endAt',
    foundBy: inProcess,
  },
  'etcd: a claim sent again stretches what is trusted': {
    file: leases('claim-keeper'),
    find: "request.op === 'renew' || known === undefined ? until : Math.min(claim.trustedUntil, until)",
    replace: 'until',
    foundBy: inProcess,
  },
  'etcd: a keep-alive counts from its answer': {
    file: leases('leases'),
    find: '    const sentAt = now()\n    const answerMs',
    replace: '    const sentAt = now() + 1000\n    const answerMs',
    foundBy: ['unit/etcd-leases', ...real],
  },
  'etcd: a keep-alive is trusted before the leader has confirmed it': {
    file: leases('leases'),
    find: 'if (unconfirmed === undefined || unconfirmed.session !== session || callNumber <= unconfirmed.callNumber) continue',
    replace: 'if (unconfirmed === undefined || unconfirmed.session !== session) continue',
    foundBy: ['unit/etcd-leases', ...real],
  },
  'etcd: a keep-alive is trusted though the leader has changed': {
    file: leases('leases'),
    find: 'if (term === unconfirmed.term) lease.sureUntil',
    replace: 'lease.sureUntil',
    foundBy: ['unit/etcd-leases', ...real],
  },
  'etcd: a lease that has ended is kept alive': {
    file: leases('leases'),
    find: '    if (reply.seconds <= 0) {\n',
    replace: '    if (reply.seconds < -1) {\n',
    foundBy: ['unit/etcd-leases', ...real],
  },
  'etcd: a lease is shorter than the ttl that it is for': {
    file: file('driver'),
    find: 'testLeaseSeconds : Math.ceil(ttlMs / 1000))',
    replace: 'testLeaseSeconds : Math.max(1, Math.floor(ttlMs / 1000)))',
    foundBy: ['integration/etcd-leases > of seconds and a part'],
  },
  'etcd: a grant counts from its answer': {
    file: leases('leases'),
    find: '      lease.sureUntil = sentAt + lease.lastsMs\n',
    replace: '      lease.sureUntil = now() + lease.lastsMs + 500\n',
    foundBy: ['unit/etcd-leases', ...real],
  },
  'etcd: a probe waits for less than the ttl': {
    file: leases('liveness-check'),
    find: 'ttlMs * ttlFactor + marginMs, () =>',
    replace: 'ttlMs * 0.9, () =>',
    foundBy: ['unit/etcd-liveness-check'],
  },
  'etcd: a probe ends a claim that has answered': {
    file: leases('liveness-check'),
    find: 'const compare = [unchangedSince(name, revision), unchangedSince(marker, markerRevision)]',
    replace: 'const compare = [unchangedSince(name, revision)]',
    foundBy: ['unit/etcd-liveness-check', ...real],
  },
  'etcd: a probe is not asked of a marker that cannot answer': {
    file: leases('liveness-check'),
    find: "if (found[0]?.value.toString() !== answersProbes) return 'none'",
    replace: "if (found[0] === undefined) return 'none'",
    foundBy: ['unit/etcd-liveness-check', ...real],
  },
  'etcd: a late copy of a claim whose asker has given up is granted': {
    file: file('key-writer'),
    find: 'if (!before.records.has(id)) compare.push(unchangedSince(keyspace.over(id), 0))',
    replace: '',
    foundBy: ['unit/etcd-key-writer', 'integration/etcd-faults > does not come to be'],
  },
  'etcd: a marker that another has removed is put back': {
    file: file('key-writer'),
    find: 'if (at !== undefined) compare.push(exists(keyspace.marker(key, id)))',
    replace: '',
    foundBy: ['integration/etcd-leases > is not put back'],
  },
  'etcd: a document is written over another’s': {
    file: file('key-writer'),
    find: 'const compare = [unchangedSince(keyspace.document(key), before.revision)]',
    replace: 'const compare: ReturnType<typeof exists>[] = []',
    foundBy: ['unit/etcd-key-writer', ...real],
  },
  'etcd: the markers of claims that have left stay': {
    file: file('key-writer'),
    find: '    for (const id of gone.slice(0, removalsMax)) success.push(remove(keyspace.marker(key, id)))\n',
    replace: '',
    foundBy: ['unit/etcd-key-writer', ...real],
  },
  'etcd: a holder is told a longer lease than its marker has': {
    file: file('send'),
    find: 'return { ...status, ttlMs: Math.max(1, Math.floor(Math.min(status.ttlMs, leftMs))) }',
    replace: 'return status',
    foundBy: [...real],
  },
  'etcd: a lease that is probed is trusted': {
    file: file('send'),
    find: 'if (isProbed) return { ...status, ttlMs: 1 }',
    replace: '',
    foundBy: [...real],
  },
  'etcd: a notified grant is trusted for the ttl that it says': {
    file: file('driver'),
    find: 'Math.floor(Math.min(status.ttlMs, own.trustedUntil - this.#environment.now(), leftMs))',
    replace: 'Math.floor(status.ttlMs)',
    foundBy: ['integration/etcd-leases > that is notified is trusted'],
  },
  'etcd: data is as old as the lease that it once had': {
    file: leases('data-age'),
    find: 'if (isKnown) return age',
    replace: 'if (this.#lease !== 0) return age',
    foundBy: ['unit/etcd', 'integration/etcd-restore', ...real],
  },
}
