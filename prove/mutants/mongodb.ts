import type { Mutants } from './mutant.ts'

const file = (name: string): string => `src/drivers/mongodb/${name}.ts`
const test = (title: string): readonly [string] => [`integration/mongodb > ${title}`]
const store = (title: string): readonly [string] => [`long/mongodb-store > ${title}`]
const contract = test('one server mongodb keeps the contract|answer as the rule does')

/** MongoDB: what one command settles beside the rule, and compare-and-swap. */
export const mongodb: Mutants = {
  'MongoDB: a late copy of a claim that is over begins it anew': {
    file: file('fast-path'),
    find: "      { $ne: ['$claims.id', [text(claim.id)]] },\n",
    replace: '',
    foundBy: test('that is over is not begun anew by one command'),
  },
  'MongoDB: one command grants without the fence floor of the clock': {
    file: file('fast-path'),
    find: "{ $max: [{ $add: ['$lastFence', 1] }, { $multiply: [{ $toLong: clock }, 1000] }] }",
    replace: "{ $ifNull: [{ $add: ['$lastFence', 1] }, { $multiply: [{ $toLong: clock }, 1000] }] }",
    foundBy: store('after documents were restored from an older copy'),
  },
  'MongoDB: one command takes a key before the grace is over': {
    file: file('fast-path'),
    find: 'freeAt: { $add: [clock, leaseMs + graceMs] },',
    replace: 'freeAt: { $add: [clock, leaseMs] },',
    foundBy: contract,
  },
  'MongoDB: one command renews a lease that is over': {
    file: file('fast-path'),
    find: '      { $lt: [clock, until] },\n',
    replace: '',
    foundBy: contract,
  },
  'MongoDB: one command renews beyond the longest hold': {
    file: file('fast-path'),
    find: "      isMissing('$$first.maxHoldMs'),\n",
    replace: '',
    foundBy: contract,
  },
  'MongoDB: one command renews a holder that was asked to leave': {
    file: file('fast-path'),
    find: "      isMissing('$$first.leaving'),\n",
    replace: '',
    foundBy: contract,
  },
  'MongoDB: one command releases a claim that others wait behind': {
    file: file('fast-path'),
    find: '{ $pull: { claims: { id, isSole: true } } }',
    replace: '{ $pull: { claims: { id } } }',
    foundBy: test('leaves a claim alone that others wait behind'),
  },
  'MongoDB: a lease that may be over is released in one command': {
    file: file('driver'),
    find: 'mayWithdraw: (key, id) => this.#claims.isSafe(key, id, this.#ownTime()),',
    replace: 'mayWithdraw: (key, id) => this.#claims.has(key, id),',
    foundBy: test('of a lease that may be over'),
  },
  'MongoDB: a swap does not see that the holder was released in one command': {
    file: file('send'),
    find: "sole === undefined ? { revision } : { revision, 'claims.id': sole }",
    replace: '{ revision }',
    foundBy: test('is seen by whoever had read the document before'),
  },
  'MongoDB: a swap compares nothing': {
    file: file('send'),
    find: 'replaceOne({ _id: swap.key, ...unchanged }',
    replace: 'replaceOne({ _id: swap.key }',
    foundBy: test('is seen by whoever had read the document before'),
  },
  'MongoDB: who inserts second counts as first': {
    file: file('send'),
    find: "return isDuplicate(error) ? 'conflict' : { unknown: mongodbError(error) }",
    replace: "return isDuplicate(error) ? 'swapped' : { unknown: mongodbError(error) }",
    foundBy: test('that finds no document waits'),
  },
  'MongoDB: a record is collected while a lease lasts': {
    file: file('document'),
    find: 'return dateAt(ends.reduce((last, end) => Math.max(last, end), Math.max(fenceOver, document.ended?.until ?? 0)))',
    replace: 'return dateAt(Math.max(fenceOver, document.ended?.until ?? 0))',
    foundBy: store('so a document is kept'),
  },
  'MongoDB: one command lets a record be collected while its lease lasts': {
    file: file('fast-path'),
    find: 'const leastMs = forMs + keptForMs\n',
    replace: 'const leastMs = keptForMs\n',
    foundBy: store('so a document is kept'),
  },
  'MongoDB: a write concern below the majority is taken': {
    file: file('concerns'),
    find: "if (w !== undefined && w !== 'majority') {",
    replace: "if (w !== undefined && w !== 'majority' && w !== 1) {",
    foundBy: store('weaker than a majority'),
  },
}
