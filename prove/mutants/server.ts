import type { Mutants } from './mutant.ts'

const auth = (name: string): string => `src/server/auth/${name}.ts`
const store = (name: string): string => `src/server/store/${name}.ts`
const byRights = ['unit/server-grants', 'integration/server-rights'] as const

/** The server: who may do what, in whose name, and how much of it. */
export const server: Mutants = {
  'server: a token for `bill` covers `billing`': {
    file: auth('grants'),
    find: "whole.has(splitStoreKey(text)?.namespace ?? '') ||",
    replace: "[...whole].some((name) => (splitStoreKey(text)?.namespace ?? '').startsWith(name)) ||",
    foundBy: byRights,
  },
  'server: a token for `billing` touches `bill`': {
    file: auth('grants'),
    find: 'touches: (namespace) => whole.has(namespace) || inPart.has(namespace),',
    replace: 'touches: (namespace) => [...whole].some((name) => name.startsWith(namespace)) || inPart.has(namespace),',
    foundBy: byRights,
  },
  'server: the rights of one grant are good for the keys of another': {
    file: auth('grants'),
    find: 'allowed.some(({ rights, covers }) => rights.has(right) && covers(key))',
    replace: 'allowed.some(({ rights }) => rights.has(right)) && allowed.some(({ covers }) => covers(key))',
    foundBy: byRights,
  },
  'server: two tokens share one session': {
    file: store('sessions'),
    find: 'return `${principal.name} ${given}`',
    replace: 'return `${principal.name.slice(0, 0)} ${given}`',
    foundBy: ['unit/server-sessions', 'integration/server-rights', 'integration/server-tokens'],
  },
  'server: a session is of a token whose name begins alike': {
    file: store('sessions'),
    find: "session.lastIndexOf(' '))",
    replace: "session.lastIndexOf(' ') - 1)",
    foundBy: ['unit/server-sessions', 'integration/server-quotas'],
  },
  'server: an eviction needs the right to lock only': {
    file: auth('rights'),
    find: "if (request.op === 'evict') return ['evict']",
    replace: "if (request.op === 'evict') return ['lock']",
    foundBy: byRights,
  },
  'server: a forced take needs no right to evict': {
    file: auth('rights'),
    find: "return forcedBy(request) === undefined ? ['lock'] : ['lock', 'evict']",
    replace: "return ['lock']",
    foundBy: [...byRights, 'integration/server-forced-takes'],
  },
  'server: a tenant may lift fences far past the clock': {
    file: auth('rights'),
    find: 'return aheadMs(request, principal, wallMs) > fencesAheadMaxMs ? tooHigh(principal) : undefined',
    replace: 'return undefined',
    foundBy: ['integration/server-fence-floors', ...byRights],
  },
  'server: a fence is lifted before the clock has reached it': {
    file: store('authorized-store'),
    find: 'if (requests.every((request) => aheadMs(request, principal, this.#environment.wall()) <= 0)) return',
    replace: 'if (requests.length > 0) return',
    foundBy: ['integration/server-fence-floors'],
  },
  'server: a listing of a namespace needs no right': {
    file: auth('rights'),
    find: "if (principal.may('read', place ?? '')) return",
    replace: "if (principal.rights.has('read')) return",
    foundBy: byRights,
  },
  'server: a token is good after it has expired': {
    file: auth('tokens'),
    find: 'const expiresAt = Math.min(expiryOf(token), expiryOf(secret))',
    replace: 'const expiresAt = expiryOf(token)',
    foundBy: ['integration/server-tokens', 'integration/server-rights'],
  },
  'server: a stream goes on though its token was changed': {
    file: auth('tokens'),
    find: '?.stamp === stamp',
    replace: '!== undefined',
    foundBy: ['integration/server-tokens'],
  },
  'server: a certificate of two tokens is that of the first': {
    file: auth('tokens'),
    find: 'return found.every(({ principal }) => principal === first?.principal) ? first : undefined',
    replace: 'return first',
    foundBy: ['integration/server-certificates'],
  },
  'server: a refused request of a batch is carried out': {
    file: store('authorized-store'),
    find: 'const allowed = isWhole ? requests : requests.filter((_, index) => lacks[index] === undefined)',
    replace: 'const allowed = requests',
    foundBy: byRights,
  },
  'server: a claim is not marked with the token that made it': {
    file: store('authorized-store'),
    find: 'if (this.#marksClaims) for (const request of allowed) markVia(request, principal)',
    replace: '',
    foundBy: ['integration/server-owners', 'integration/server-rights', 'integration/server-routes'],
  },
  'server: a store whose locks end with a connection is served': {
    file: store('store-facade'),
    find: '      requireLeaseLifetime(this.#driver, compositionName)\n',
    replace: '',
    foundBy: ['integration/lifetime > no longer served'],
  },
  'server: a gap of the store is not passed on': {
    file: store('store-facade'),
    find: '        sessions.gap()\n',
    replace: '',
    foundBy: ['integration/http-faults > is passed on'],
  },
  'server: a waiter whose stream is gone is not told to poll': {
    file: store('sessions'),
    find: 'return status.againMs <= pollWithinMs ? status : { ...status, againMs: pollWithinMs }',
    replace: 'return status',
    foundBy: ['unit/server-sessions', 'integration/http-faults', 'integration/server-routes'],
  },
  'server: the ids of others are shown in a notification': {
    file: store('sessions'),
    find: 'const status = this.#describe(readableStatus(notification, key, stream.principal))',
    replace: 'const status = this.#describe(notification)',
    foundBy: ['integration/server-rights', 'integration/server-quotas'],
  },
  'server: claims of a token beyond its quota are taken': {
    file: store('claim-quotas'),
    find: 'if (own.claims >= claimsPerTokenMax) return',
    replace: 'if (own.claims > claimsPerTokenMax) return',
    foundBy: ['unit/server-claim-quotas', 'integration/server-quotas'],
  },
  'server: a claim that is sent again is counted twice': {
    file: store('claim-quotas'),
    find: '    if (known !== undefined) this.#remove(name, known)\n    const excess',
    replace: '    const excess',
    foundBy: ['unit/server-claim-quotas', 'integration/server-quotas', 'integration/server-quota-evasion'],
  },
  'server: a renewed claim leaves its quota at its first end': {
    file: store('claim-quotas'),
    find: 'known.until = Math.max(known.until, until + known.graceMs)',
    replace: 'known.until = Math.max(known.until, known.graceMs)',
    foundBy: ['unit/server-claim-quotas', 'integration/server-quotas'],
  },
}
