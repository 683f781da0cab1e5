import type { Mutants } from './mutant.ts'

const file = (name: string): string => `src/drivers/document/${name}.ts`
const observed = (name: string): string => file(`observed/${name}`)
const withClock = ['unit/document-driver'] as const
const clockless = ['unit/document-observed'] as const
const poller = { file: 'src/drivers/kit/queue-poller.ts', foundBy: ['unit/queue-poller-budget'] } as const

/** Documents that are compared and swapped: with a store's clock, by who watches where there is none, and by polling. */
export const document: Mutants = {
  // ---- with a clock
  'documents: the store’s time is not moved to that of the reading': {
    file: file('reading-time'),
    find: '  return writtenAt\n',
    replace: '  return now\n',
    foundBy: withClock,
  },
  'documents: a clock that was set back is taken for a slow reading': {
    file: file('reading-time'),
    find: 'if (time > writtenAt && time <= latest) writtenAt = time',
    replace: 'if (time > writtenAt) writtenAt = time',
    foundBy: withClock,
  },
  'documents: a reading is timed by a clock that cannot be slow': {
    file: file('reading-time'),
    find: 'Math.ceil(tookMs * (1 + driftRate))',
    replace: 'Math.ceil(tookMs)',
    foundBy: ['unit/polled-driver'],
  },
  'documents: a reading is timed from its answer': {
    file: file('driver'),
    find: '      const askedAt = environment.now()\n      const { now, wall, loaded } = await store.load(keys)\n',
    replace: '      const { now, wall, loaded } = await store.load(keys)\n      const askedAt = environment.now()\n',
    foundBy: withClock,
  },
  'polled documents: a reading is timed from its answer': {
    file: file('polled-driver'),
    find: '        const askedAt = this.#environment.now()\n        const { now, wall, loaded } = await send.load(keys)\n',
    replace:
      '        const { now, wall, loaded } = await send.load(keys)\n        const askedAt = this.#environment.now()\n',
    foundBy: ['unit/polled-driver'],
  },
  'polled documents: whoever waits behind a claim that is over is left alone': {
    file: file('polled-driver'),
    find: "    isDue ||= now >= expiresAt + (state === 'held' ? claim.graceMs : 0)\n",
    replace: '',
    foundBy: ['unit/polled-driver'],
  },
  'polled documents: a claim is over before its grace': {
    file: file('polled-driver'),
    find: "isDue ||= now >= expiresAt + (state === 'held' ? claim.graceMs : 0)",
    replace: 'isDue ||= now >= expiresAt',
    foundBy: ['unit/polled-driver'],
  },
  'polled documents: the keys of waiters are not watched': {
    file: file('polled-driver'),
    find: '    if (keys.length > 0) this.#poller.watch(keys)\n',
    replace: '',
    foundBy: ['unit/polled-driver'],
  },
  'polled documents: an owner is not notified of a grant by a neighbour': {
    file: file('polled-driver'),
    find: '            this.#listeners.notify(key, id, status)\n          }\n        }),\n',
    replace: '          }\n        }),\n',
    foundBy: ['unit/polled-driver'],
  },
  'documents: two have the same content': {
    file: file('driver'),
    find: 'document: { ...swap.document, nonce: environment.id() }',
    replace: "document: { ...swap.document, nonce: '' }",
    foundBy: withClock,
  },
  'documents: a guess is an answer': {
    file: file('document-swaps'),
    find: '      } else if (isGuess) {\n        again.push(keyWork)\n',
    replace: '',
    foundBy: withClock,
  },
  'documents: a write whose answer was lost is thought carried out': {
    file: file('document-swaps'),
    find: '      answerUnknown(entering, error, answers)\n      if (others.requests.length > 0) again.push(others)\n',
    replace: '      answer(swap.work, swap.statuses, answers)\n',
    foundBy: withClock,
  },
  'documents: a lost race is thought won where nobody else holds': {
    file: file('document-swaps'),
    find: "    if (result === 'swapped') {\n      answer",
    replace:
      "    if (result === 'swapped' || (result === 'conflict' && swap.statuses.every(({ state }) => state === 'held'))) {\n      answer",
    foundBy: withClock,
  },
  'documents: answers are lost with a failure that came after them': {
    file: file('document-swaps'),
    find: 'if (store.mayHaveWritten !== true && answers.every((status) => status === undefined)) throw error\n',
    replace: 'if (store.mayHaveWritten !== true && answers.length > 0) throw error\n',
    foundBy: withClock,
  },
  'documents: one damaged record fails the batch': {
    file: file('document-swaps'),
    find: '      if (work.length === 1) throw error\n',
    replace: '      if (work.length > 0) throw error\n',
    foundBy: withClock,
  },
  'documents: fences begin at one where the document was lost': {
    file: file('document-swaps'),
    find: '  state.fenceFloor = fenceFloor(wall)\n',
    replace: '',
    foundBy: withClock,
  },
  'documents: a fence that a renewal lifts is not written': {
    file: file('document-swaps'),
    find: '    changed ||= verdict.lastFence !== state.lastFence || verdict.ended !== state.ended\n',
    replace: '',
    foundBy: withClock,
  },
  'documents: an unclean end is not stored': {
    file: file('key-document'),
    find: '    ended: state.ended,\n',
    replace: '',
    foundBy: withClock,
  },
  'documents: waiters are not stored behind many holders': {
    file: file('key-document'),
    find: 'claims: [...state.holders(), ...state.waiters()],\n  }\n}\n\n/** A key out',
    replace:
      'claims: [...state.holders(), ...state.waiters()].slice(0, Math.max(1, [...state.holders()].length + 1)),\n  }\n}\n\n/** A key out',
    foundBy: withClock,
  },
  'documents: a claim without an end is believed': {
    file: file('key-document'),
    find: '[enteredAt, acquiredAt, lastHeartbeat, expiresAt].every(Number.isFinite)',
    replace: '[enteredAt, acquiredAt, lastHeartbeat].every(Number.isFinite)',
    foundBy: withClock,
  },
  'documents: a newer format is read as ours': {
    file: file('key-document'),
    find: 'if (version !== documentFormatVersion) {',
    replace: 'if (Number(version) < documentFormatVersion) {',
    foundBy: withClock,
  },
  // ---- without a clock
  'observed: a lease is counted from when it was asked for': {
    file: observed('observed-send'),
    find: '    const read = new Map(unread.map((key, index) => [key, found[index]]))\n    // Only now: a beat is first seen when its document has arrived, and not when it was asked for.\n    const now = this.#setup.observedNow()\n',
    replace:
      '    const read = new Map(unread.map((key, index) => [key, found[index]]))\n    const now = Math.floor(this.#sentAt)\n',
    foundBy: clockless,
  },
  'observed: a watched lease is counted from when it was asked for': {
    file: observed('observed-driver'),
    find: '    const read = await this.#store.load(keys)\n    const now = this.#observedNow()\n',
    replace: '    const now = this.#observedNow()\n    const read = await this.#store.load(keys)\n',
    foundBy: clockless,
  },
  'observed: a listed lease is counted from before it was read': {
    file: observed('observed-driver'),
    find: '  #shown(key: string, stored: ObservedDocument, now: number, reading: number): ReturnType<typeof withEnds> {\n    this.#observations.see(key, beatsOf(stored), now, reading)\n',
    replace:
      '  #shown(key: string, stored: ObservedDocument, now: number, reading: number): ReturnType<typeof withEnds> {\n    this.#observations.see(key, beatsOf(stored), now - 1000, reading)\n',
    foundBy: clockless,
  },
  'observed: no margin for an observer whose clock is fast': {
    file: observed('stored-key'),
    find: 'const marginMs = isExact ? 0 : lengthMs * driftRate + roundingMs',
    replace: 'const marginMs = isExact ? 0 : roundingMs',
    foundBy: clockless,
  },
  'observed: no margin for whole milliseconds': {
    file: observed('stored-key'),
    find: 'const marginMs = isExact ? 0 : lengthMs * driftRate + roundingMs',
    replace: 'const marginMs = isExact ? 0 : lengthMs * driftRate',
    foundBy: clockless,
  },
  'observed: a renewal is taken for the lease that was seen before': {
    file: observed('observations'),
    find: 'return [id, known?.beat === beat ? known : { beat, at }] as const',
    replace: 'return [id, { beat, at: known?.at ?? at }] as const',
    foundBy: clockless,
  },
  'observed: each reading begins the count anew': {
    file: observed('observations'),
    find: 'return [id, known?.beat === beat ? known : { beat, at }] as const',
    replace: 'return [id, { beat, at }] as const',
    foundBy: clockless,
  },
  'observed: a reading that a later one has overtaken is believed': {
    file: observed('observations'),
    find: '    if (before !== undefined && before.reading > reading) return\n',
    replace: '',
    foundBy: clockless,
  },
  'observed: what others list pushes out what is waited for': {
    file: observed('observations'),
    find: 'if (!this.#isKept(key)) continue',
    replace: 'if (true) continue',
    foundBy: clockless,
  },
  'observed: a key that is kept makes room for none': {
    file: observed('observations'),
    find: 'const passedMax = 8',
    replace: 'const passedMax = 0',
    foundBy: clockless,
  },
  'observed: sleep counts for the end of what others hold': {
    file: observed('observed-driver'),
    find: 'Math.floor(this.#environment.awake?.() ?? this.#environment.now())',
    replace: 'Math.floor(this.#environment.now())',
    foundBy: clockless,
  },
  'observed: the wall clock is the observer’s': {
    file: observed('observed-driver'),
    find: 'Math.floor(this.#environment.awake?.() ?? this.#environment.now())',
    replace: 'Math.floor(this.#environment.wall())',
    foundBy: clockless,
  },
  'observed: a driver gives all its writes one beat': {
    file: observed('observed-send'),
    find: '{ nonce: environment.id(), now, wall, channelOf: this.#channelOf }',
    replace: "{ nonce: 'beat', now, wall, channelOf: this.#channelOf }",
    foundBy: clockless,
  },
  'observed: the sends of a driver count their beats each from one': {
    file: observed('observed-send'),
    find: '{ nonce: environment.id(), now, wall, channelOf: this.#channelOf }',
    replace: '{ nonce: String(this.#setup.observations.begin()), now, wall, channelOf: this.#channelOf }',
    foundBy: clockless,
  },
  'observed: a renewal in the first moments of a lease gives no time': {
    file: observed('stored-key'),
    find: '    before.renewalCount !== after.renewalCount ||\n',
    replace: '',
    foundBy: clockless,
  },
  'observed: a conversion that another grants keeps its old beat': {
    file: observed('stored-key'),
    find: '(before.state !== after.state && after.claim.replaces !== undefined)',
    replace: 'false',
    foundBy: clockless,
  },
  'observed: any write begins the leases of others anew': {
    file: observed('stored-key'),
    find: 'return isCut ? Math.min(lengthMs, left) : left',
    replace: 'return left',
    foundBy: ['unit/document-observed > leaves the leases of others'],
  },
  'observed: an unclean end is remembered anew with each write': {
    file: observed('stored-key'),
    find: 'keepMs: isSame ? before.keepMs : Math.max(1, until - now)',
    replace: 'keepMs: Math.max(1, until - now)',
    foundBy: clockless,
  },
  'observed: an unclean end is counted from the end before it': {
    file: observed('stored-key'),
    find: 'return { id: `ended ${id}`, beat: String(fence) }',
    replace: "return { id: 'ended', beat: '' }",
    foundBy: clockless,
  },
  'observed: a claim sent again after its release has the old beat': {
    file: observed('stored-key'),
    find: 'const before = shown.get(id)?.enteredAt === record.enteredAt ? stored.get(id) : undefined',
    replace: 'const before = stored.get(id)',
    foundBy: clockless,
  },
  'observed: an owner trusts its own write where another driver’s is stored': {
    file: observed('trusted-leases'),
    find: 'const stored = [lease.written, lease.sent].find((sent) => sent?.beat === beat)',
    replace: 'const stored = lease.sent ?? lease.written',
    foundBy: clockless,
  },
  'observed: an owner trusts the longer of two leases while one is unanswered': {
    file: observed('trusted-leases'),
    find: 'Math.min(leftOf(stored, at), leftOf(lease.shortest, at))',
    replace: 'leftOf(stored, at)',
    foundBy: clockless,
  },
  'observed: no margin for an owner whose clock is slow': {
    file: observed('trusted-leases'),
    find: 'return ttlMs - (at - sentAt) / (1 - driftRate)',
    replace: 'return ttlMs - (at - sentAt)',
    foundBy: clockless,
  },
  'observed: an owner counts its lease from the answer': {
    file: observed('observed-send'),
    find: 'lease: { sentAt: this.#sentAt, ttlMs, beat }',
    replace: 'lease: { sentAt: this.#setup.environment.now(), ttlMs, beat }',
    foundBy: clockless,
  },
  'observed: an owner does not count sleep': {
    file: observed('observed-send'),
    find: '    this.#sentAt = setup.environment.now()\n',
    replace: '    this.#sentAt = setup.environment.awake?.() ?? setup.environment.now()\n',
    foundBy: clockless,
  },
  'observed: keys that are only held are not watched': {
    file: observed('observed-driver'),
    find: 'heldPauseMs: (key) => (this.#isExact ? maxMs : Math.max(maxMs, this.#shortestOf(key) / heldReadingsPerTtl)),',
    replace: 'heldPauseMs: () => Infinity,',
    foundBy: clockless,
  },
  'observed: an owner trusts each answer for the whole ttl': {
    file: observed('observed-send'),
    find: 'return { ...status, ttlMs: Math.min(status.ttlMs, leftMs) }',
    replace: 'return status',
    foundBy: clockless,
  },
  'observed: a waiter never writes to keep its place': {
    file: observed('observed-send'),
    find: 'return isSame && environment.now() - beganAt < freshPart * after.ttlMs',
    replace: 'return isSame',
    foundBy: clockless,
  },
  'observed: a waiter that asks for another ttl is not written': {
    file: observed('observed-send'),
    find: 'return isSame && environment.now() - beganAt',
    replace: 'return environment.now() - beganAt',
    foundBy: clockless,
  },
  'observed: a place that another driver wrote last is thought fresh': {
    file: observed('observed-send'),
    find: 'const beganAt = trusted.beganAt(claim, this.#beatOf(claim)) ?? -Infinity',
    replace: 'const beganAt = trusted.beganAt(claim, this.#beatOf(claim)) ?? Infinity',
    foundBy: clockless,
  },
  'observed: a reading that overlapped a write undoes its count': {
    file: observed('observed-send'),
    find: 'observations.see(key, beatsOf(document), at, writing)',
    replace: 'observations.see(key, beatsOf(document), at, 0)',
    foundBy: clockless,
  },
  'observed: a document that was written long ago is not read again': {
    file: observed('recent-documents'),
    find: 'now - written.at > lastsMs ? undefined : written',
    replace: 'now - written.at > 3600 * lastsMs ? undefined : written',
    foundBy: clockless,
  },
  'observed: what a guess lacks is forgotten': {
    file: observed('observed-send'),
    find: 'if (!isGuess && error === undefined) {',
    replace: 'if (error === undefined) {',
    foundBy: clockless,
  },
  'observed: a longest hold is taken, from whoever counts it': {
    file: observed('observed-driver'),
    find: 'push: true, maxHold: false }',
    replace: 'push: true, maxHold: true }',
    foundBy: clockless,
  },
  'observed: a notification that overtakes its answer is lost': {
    file: observed('observed-driver'),
    find: '      this.#early.add(claimName({ key, id }))\n',
    replace: '',
    foundBy: clockless,
  },
  'observed: a gap is not asked about': {
    file: observed('observed-driver'),
    find: '            () => this.#poller.pollAll(),\n',
    replace: '            () => {},\n',
    foundBy: clockless,
  },
  'observed: nobody is told that the lease before it is over': {
    file: observed('observed-driver'),
    find: "      isDue ||= now >= record.expiresAt + (record.state === 'held' ? graceMs : 0)\n",
    replace: '',
    foundBy: clockless,
  },
  'observed: an owner is not told that its lease is over while it is stored': {
    file: observed('observed-driver'),
    find: 'if (own.has(id) && now < record.expiresAt) {',
    replace: 'if (own.has(id)) {',
    foundBy: clockless,
  },
  'observed: a short lease is watched as seldom as a long one': {
    file: observed('observed-driver'),
    find: 'pauseMaxMs: (key) => this.#shortestOf(key) / readingsPerTtl,',
    replace: 'pauseMaxMs: () => Infinity,',
    foundBy: clockless,
  },
  'observed: a key is watched by the ttl of the waiter alone': {
    file: observed('observed-driver'),
    find: '      shortestMs = Math.min(shortestMs, record.ttlMs)\n',
    replace: '      if (own.has(id)) shortestMs = Math.min(shortestMs, record.ttlMs)\n',
    foundBy: clockless,
  },
  // ---- polling
  'polling: keys do not take turns': {
    ...poller,
    find: '      this.#keys.delete(key)\n      this.#keys.set(key, watched)\n',
    replace: '',
  },
  'polling: who comes to wait puts off the reading of the key': {
    ...poller,
    find: 'watched.dueAt = Math.min(scheduledAt, this.#now() + this.#pauseMs(key, watched))',
    replace: 'watched.dueAt = this.#now() + this.#pauseMs(key, watched)',
  },
  'polling: a reading says that a younger claim is gone': {
    ...poller,
    find: '        if (asked.get(key)?.get(id) !== claim) continue\n',
    replace: '',
    foundBy: ['unit/queue-poller'],
  },
  'polling: a waiter behind a claim that is over is left alone': {
    ...poller,
    find: 'if (claim.polled || (isSame && found.isDue !== true)) continue',
    replace: 'if (claim.polled || isSame) continue',
    foundBy: ['unit/queue-poller'],
  },
  'polling: a claim that is gone is forgotten before its owner was told': {
    ...poller,
    find: 'if (found === undefined && claim.polled && now > claim.askedUntil) {',
    replace: 'if (found === undefined) {',
  },
  'polling: a claim that is gone is forgotten before its owner could ask': {
    ...poller,
    find: 'if (found === undefined && claim.polled && now > claim.askedUntil) {',
    replace: 'if (found === undefined && claim.polled) {',
  },
  'polling: quiet times save up readings without end': {
    ...poller,
    find: 'this.#credit = Math.min(Math.max(1, burstSeconds * keysPerSecondMax), this.#credit + earned)',
    replace: 'this.#credit += earned',
  },
  'polling: a budget below one reading a second reads nothing': {
    ...poller,
    find: 'Math.min(Math.max(1, burstSeconds * keysPerSecondMax), this.#credit + earned)',
    replace: 'Math.min(burstSeconds * keysPerSecondMax, this.#credit + earned)',
  },
  'polling: the longest pause is that of the pace, however short the leases': {
    ...poller,
    find: 'return Math.min(pause, pauseMaxMs?.(key) ?? Infinity)',
    replace: 'return pause',
  },
  'polling: the next in line is read as seldom as the last': {
    ...poller,
    find: 'watched.unchanged = nearest < watched.place ? 0 : watched.unchanged + 1',
    replace: 'watched.unchanged += 1',
  },
}
