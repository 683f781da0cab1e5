import type { Mutants } from './mutant.ts'

const kit = (name: string): string => `src/drivers/kit/${name}.ts`

/** What drivers share, guards, the document driver, and the watch for deadlocks. */
export const kitAndGuards: Mutants = {
  'a gap is not told': {
    file: kit('listeners'),
    find: 'for (const { onGap } of this.#listeners) onGap?.()',
    replace: '',
    foundBy: ['unit/driver-kit', 'unit/notifications', 'unit/etcd-notification-watch'],
  },
  'a notification goes to one listener only': {
    file: kit('listeners'),
    find: 'for (const { onNotification } of this.#listeners) onNotification(key, id, notification)',
    replace: 'for (const { onNotification } of this.#listeners) return onNotification(key, id, notification)',
    foundBy: ['unit/driver-kit', 'unit/memory'],
  },
  'a claim with a grace is plain': {
    file: kit('plain-claim'),
    find: '    claim.graceMs === 0 &&\n',
    replace: '',
    foundBy: ['unit/sqlite-shortcut', 'unit/redis-encoding', 'unit/sqlite-conformance'],
  },
  'a claim with a longest hold takes the whole key plainly': {
    file: kit('plain-claim'),
    find: ' && replaces === undefined && maxHoldMs === undefined\n',
    replace: ' && replaces === undefined\n',
    foundBy: ['unit/sqlite-shortcut', 'unit/redis-encoding', 'unit/sqlite-conformance'],
  },
  'a renewal with a fence floor is plain': {
    file: kit('plain-claim'),
    find: 'return fenceFloor === undefined && detached === undefined',
    replace: 'return detached === undefined',
    foundBy: ['unit/redis-encoding', 'integration/redis-fences'],
  },
  'a call that timed out keeps its slot': {
    file: kit('call-semaphore'),
    find: '        this.#waiting.delete(settle)\n',
    replace: '',
    foundBy: ['unit/driver-kit', 'unit/driver-work'],
  },
  'what was opened while the driver closed stays open': {
    file: kit('lifecycle'),
    find: '      await this.#discard?.(opened)\n',
    replace: '',
    foundBy: ['unit/driver-kit'],
  },
  'a change that a poll has found is told once more': {
    file: kit('queue-poller'),
    find: 'if (claim.polled || (isSame && found.isDue !== true)) continue',
    replace: 'if (isSame && found.isDue !== true) continue',
    foundBy: ['unit/queue-poller'],
  },
  'a poll tells nobody': {
    file: kit('queue-poller'),
    find: '        this.#setup.poll(key, id)\n',
    replace: '',
    foundBy: ['unit/queue-poller'],
  },
  'a release that a poll follows is told as a change': {
    file: kit('claim-register'),
    find: 'if (before?.polled === false && !leaves && differs(before, after))',
    replace: 'if (before?.polled === false && differs(before, after))',
    foundBy: ['unit/queue-poller'],
  },
  'the rest of a batch is answered as its first slice': {
    file: kit('work'),
    find: "if (first === undefined || answered.some(({ state }) => state !== 'unknown')) continue",
    replace: "if (first === undefined || answered.every(({ state }) => state !== 'unknown')) continue",
    foundBy: ['unit/driver-work'],
  },
  'a file guard renames before it raises': {
    file: 'src/guards/file.ts',
    find: '        await this.#retryWhileBusy(() => raise(fences, this.#file, fence))\n        await this.#retryWhileBusy(() => replace(fences, this.#file, draft, fence))\n',
    replace:
      '        await this.#retryWhileBusy(() => replace(fences, this.#file, draft, fence))\n        await this.#retryWhileBusy(() => raise(fences, this.#file, fence))\n',
    foundBy: ['unit/guards-file'],
  },
  'a file guard renames without a look at the fence': {
    file: 'src/guards/file.ts',
    find: '    seenBy(fences, file, fence)\n    renameSync(draft, file)',
    replace: '    renameSync(draft, file)',
    foundBy: ['unit/guards-file', 'integration/guards'],
  },
  'a file guard does not keep its fences through a power cut': {
    file: 'src/guards/file.ts',
    find: 'pragma synchronous = extra',
    replace: 'pragma synchronous = off',
    foundBy: ['integration/guards-file'],
  },
  'a file guard does not sync what it has written': {
    file: 'src/guards/file.ts',
    find: '    await handle.sync()\n',
    replace: '',
    foundBy: ['integration/guards-file'],
  },
  'a file guard does not sync the directory': {
    file: 'src/guards/file.ts',
    find: '    syncDirectory(path.dirname(file))\n',
    replace: '',
    foundBy: ['integration/guards-file'],
  },
  'a memory guard lets two writes of one resource overlap': {
    file: 'src/guards/memory.ts',
    find: '      await before\n',
    replace: '',
    foundBy: ['unit/guards-memory'],
  },
  'a memory guard refuses the fence that has written last': {
    file: 'src/guards/memory.ts',
    find: 'if (checkFence(fence) < seen) throw',
    replace: 'if (checkFence(fence) <= seen) throw',
    foundBy: ['unit/guards-memory'],
  },
  'a cycle that was seen in one look only is acted on': {
    file: 'src/api/owners/deadlock-watch.ts',
    find: 'const keys = claimsInBoth(this.#firstRead, seen.keys)',
    replace: 'const { keys } = seen',
    foundBy: ['unit/deadlock', 'unit/deadlock-reads', 'unit/deadlock-runs'],
  },
  'a first look at a cycle gives up a victim': {
    file: 'src/api/owners/deadlock-watch.ts',
    find: '          this.#firstRead = seen.keys\n',
    replace: '          this.#act(findDeadlocks(seen))\n',
    foundBy: ['unit/deadlock', 'unit/deadlock-reads', 'unit/deadlock-runs'],
  },
  'two clients give up a victim each for one cycle': {
    file: 'src/api/owners/deadlock-watch.ts',
    find: 'if (chosen === undefined || now - since < place * victimPauseMs) continue',
    replace: 'if (chosen === undefined) continue',
    foundBy: ['unit/deadlock', 'unit/deadlock-reads', 'unit/deadlock-runs'],
  },
  'a third of the ttl is the send timeout of claims, too': {
    file: 'src/core/contract/requests.ts',
    find: "    if (request.op !== 'renew') continue\n    if (isUrgent)",
    replace:
      "    if (request.op === 'claim') relaxedMs = Math.min(relaxedMs, request.claim.ttlMs / 3)\n    if (request.op !== 'renew') continue\n    if (isUrgent)",
    foundBy: ['unit/batcher'],
  },
  'a renewal may take as long as its lease lasts': {
    file: 'src/core/contract/requests.ts',
    find: 'else relaxedMs = Math.min(relaxedMs, request.ttlMs / 3)',
    replace: 'else relaxedMs = Math.min(relaxedMs, request.ttlMs)',
    foundBy: ['unit/batcher'],
  },
  'a batch of short leases takes as long as the shortest allows': {
    file: 'src/core/contract/requests.ts',
    find: 'if (isUrgent) urgentMs = Math.max(urgentMs, request.ttlMs / 3)',
    replace: 'if (isUrgent) urgentMs = Math.max(urgentMs, request.ttlMs)',
    foundBy: ['unit/batcher'],
  },
}
