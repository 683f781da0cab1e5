import type { Mutants } from './mutant.ts'

const file = (name: string): string => `src/drivers/nats/${name}.ts`
const faults = (title: string): readonly [string] => [`integration/nats-faults > ${title}`]
const unit = ['unit/nats'] as const
/** Servers that remove documents by themselves. */
const cluster = ['long/nats-cluster > the servers are asked to remove'] as const

/** NATS: a KV bucket of JetStream, by sequence numbers. */
export const nats: Mutants = {
  'NATS: a claim on an unknown key is written without a condition': {
    file: file('store'),
    find: "        'Nats-Expected-Last-Subject-Sequence': String(revision.seq),\n",
    replace: "        ...(revision.seq > 0 && { 'Nats-Expected-Last-Subject-Sequence': String(revision.seq) }),\n",
    foundBy: ['integration/nats > sends at the same time'],
  },
  'NATS: a write compares nothing': {
    file: file('store'),
    find: "        'Nats-Expected-Last-Subject-Sequence': String(revision.seq),\n",
    replace: '',
    foundBy: ['integration/nats > sends at the same time'],
  },
  'NATS: a write compares the bucket and not the key': {
    file: file('store'),
    find: "'Nats-Expected-Last-Subject-Sequence': String(revision.seq)",
    replace: "...(revision.seq > 0 && { 'Nats-Expected-Last-Sequence': String(revision.seq) })",
    foundBy: ['integration/nats > sends at the same time'],
  },
  'NATS: a swap that was held up for long is sent': {
    file: file('store'),
    find: "    if (at - revision.at > revisionLastsMs) return 'conflict'\n",
    replace: '',
    foundBy: faults('whose numbers began again'),
  },
  'NATS: a write whose answer was lost is thought to have failed': {
    file: file('store'),
    find: '          return { unknown: natsError(error) }\n',
    replace: "          return 'conflict'\n",
    foundBy: faults('that is cut after a claim was carried out'),
  },
  'NATS: a value that is not ours is a free lock': {
    file: file('store'),
    find: '  } catch {\n    return damaged\n  }',
    replace: '  } catch {\n    return undefined\n  }',
    foundBy: faults('with a value that is not ours, or of a newer format, refuses'),
  },
  'NATS: a bucket is looked at when it is opened only': {
    file: file('store'),
    find: '    if (performance.now() - session.bucket.at > bucketCheckMs) this.#check(session)\n',
    replace: '',
    foundBy: faults('was changed under way'),
  },
  'NATS: a bucket that has become unsafe is used on': {
    file: file('store'),
    find: '    if (refusal === undefined) return session\n',
    replace: '    if (refusal !== undefined || true) return session\n',
    foundBy: faults('was changed under way'),
  },
  'NATS: an interrupted connection is no gap': {
    file: file('notifications'),
    find: "if (type === 'reconnect' || type === 'slowConsumer') onGap()",
    replace: "if (type === 'slowConsumer') onGap()",
    foundBy: faults('an interrupted connection is said'),
  },
  'NATS: every waiter of a driver’s bucket is notified': {
    file: file('notifications'),
    find: 'this.#connection.subscribe(this.#subject(channel), {',
    replace: "this.#connection.subscribe(this.#subject('*'), {",
    foundBy: faults('a release sends one message'),
  },
  'NATS: a bucket with a TTL is taken': {
    file: file('bucket'),
    find: "  if (max_age > 0) throw unsafe(bucket, 'has a TTL: it would forget locks that are held', 'Set it to 0 (--ttl=0)')\n",
    replace: '',
    foundBy: unit,
  },
  'NATS: a bucket with a history is taken': {
    file: file('bucket'),
    find: 'if (max_msgs_per_subject !== 1)',
    replace: 'if (max_msgs_per_subject === 0)',
    foundBy: unit,
  },
  'NATS: a bucket that makes room by forgetting is taken': {
    file: file('bucket'),
    find: "if (discard !== 'new' && (max_bytes > 0 || max_msgs > 0))",
    replace: "if (discard !== 'new' && max_bytes > 0)",
    foundBy: unit,
  },
  'NATS: replicas are taken before 2.11': {
    file: file('bucket'),
    find: 'if (replicas === 1 || api.isAtLeast(2, 11)) return',
    replace: 'if (replicas === 1 || api.isAtLeast(2, 9)) return',
    foundBy: unit,
  },
  'NATS: a server of another major version is compared by its minor one': {
    file: file('jetstream-api'),
    find: 'return ofMajor > major || (ofMajor === major && ofMinor >= minor)',
    replace: 'return ofMajor >= major && ofMinor >= minor',
    foundBy: unit,
  },
  'NATS: a bucket is made in memory': {
    file: file('bucket'),
    find: "    storage: 'file',\n",
    replace: "    storage: 'memory',\n",
    foundBy: faults('that is killed and started again has all its locks'),
  },
  'NATS: a call without an answer is thought to have been refused': {
    file: file('errors'),
    find: 'const timedOut: NatsExplanation = explanations.timedOut',
    replace: 'const timedOut: NatsExplanation = { ...explanations.timedOut, isRefused: true }',
    foundBy: unit,
  },
  'NATS: an answer that may not be received counts as none': {
    file: file('errors'),
    find: '  [/Violation for Subscription/i, missingRight],\n',
    replace: '',
    foundBy: unit,
  },
  'NATS: two keys share a token': {
    file: file('keys'),
    find: 'const plain = /^[\\w-]$/',
    replace: 'const plain = /^[\\w=-]$/',
    foundBy: unit,
  },
  'NATS: a sweep removes what has been taken again since it looked': {
    file: file('sweep'),
    find: '{ filter: message.subject, seq }',
    replace: '{ filter: message.subject }',
    foundBy: faults('taken again while it is swept'),
  },
  'NATS: a sweep removes locks that are held': {
    file: file('sweep'),
    find: ' || !Array.isArray(document.claims) || document.claims.length > 0) return undefined',
    replace: ' || !Array.isArray(document.claims)) return undefined',
    foundBy: faults('keeps no idle document for ever'),
  },
  'NATS: a sweep removes a fence that the clock has not passed': {
    file: file('sweep'),
    find: 'if (lastFence === undefined || newestAt - lastFence / 1000 < keptForMs) continue',
    replace: 'if (lastFence === undefined) continue',
    foundBy: faults('keeps the last fence'),
  },
  'NATS: the server removes a fence that its clock has not passed': {
    file: file('store'),
    find: 'const aheadMs = Math.max(0, lastFence / 1000 - (serverMs + performance.now() - at))',
    replace: 'const aheadMs = Math.min(0, lastFence + serverMs + at)',
    foundBy: cluster,
  },
  'NATS: the server removes what is held': {
    file: file('store'),
    find: 'const ttl = idle ? removalTtl(document, session.bucket) : undefined',
    replace: 'const ttl = removalTtl(document, session.bucket)',
    foundBy: cluster,
  },
}
