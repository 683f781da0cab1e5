import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'

const root = path.join(import.meta.dirname, '../../src')

/**
 * The lists that a source spreads into the arguments of calls, as the code after the dots: more than about 120,000 items overflow the
 * stack. Spreads into arrays and objects do not, and rest parameters are no spreads.
 */
function spreadArguments(source: string): readonly string[] {
  const code = source
    .replaceAll(/\/\*[\s\S]*?\*\//g, '')
    .replaceAll(/(^|\s)\/\/.*$/gm, '')
    .replaceAll(/'(?:[^'\\\n]|\\.)*'/g, "''")
  const found: string[] = []
  /** For each bracket that is open: where it is, if it is the parenthesis of a call. */
  const open: (number | undefined)[] = []
  for (let at = 0; at < code.length; at += 1) {
    const character = code.charAt(at)
    if ('([{'.includes(character)) {
      open.push(
        character === '(' && /(?:[\w$)\]>]|\?\.)\s*$/.test(code.slice(Math.max(0, at - 20), at)) ? at : undefined,
      )
    } else if (')]}'.includes(character)) open.pop()
    else if (code.startsWith('...', at)) {
      const call = open.at(-1)
      if (call !== undefined && !isDeclaration(code, call))
        found.push(
          code
            .slice(at + 3)
            .split('\n', 1)
            .join(),
        )
      at += 2
    }
  }
  return found
}

/** Whether a parenthesis opens the parameters of a function, and not the arguments of a call. */
function isDeclaration(code: string, parenthesis: number): boolean {
  let depth = 0
  for (let at = parenthesis; at < code.length; at += 1) {
    if (code[at] === '(') depth += 1
    else if (code[at] === ')') depth -= 1
    if (depth === 0) return /^\s*(=>|\{|:)/.test(code.slice(at + 1, at + 20))
  }
  return false
}

/** What may be spread, with the reason why it stays short. */
const short: readonly (readonly [code: string, reason: string])[] = [
  ['page.keys', 'a page has at most a thousand keys'],
  ['shown(batch.keys', 'a page has at most a thousand keys'],
  ['names)', 'a step of SCAN finds a few hundred names'],
  ['distributionLines(', 'a histogram has a dozen buckets'],
  ['leasesIn(kept)', 'as many as one call named'],
  ['rowsOf(lock', 'a lock lists at most a thousand claims'],
  ['parts.map(({ now }) => now)', 'one a key of a page'],
  ['answers.map(Number)', 'one a server'],
  ['leases.map((lease) =>', 'one or two'],
  ['(await this.#notification(swap))', 'a few operations of one transaction'],
  ['foundIn(keyspace, pair)', 'one or none'],
  ['ahead, ', 'the three columns of a rank'],
  ['of, band, arrival, size)', 'the few columns of a lane'],
  ['[...granted', 'one a node of a quorum'],
  ['[...held.values()]', 'one a node of a quorum'],
  ['all.map(', 'one a node of a quorum'],
  ['(await send(slice))', 'a slice of a batch'],
  ['(await this.#sendBatch(half', 'half a batch'],
  ['half.map((): ClaimStatus', 'half a batch'],
  ['(await this.#sendBody(body', 'a part of a batch'],
  ['describe(lock, ', 'a lock lists at most a thousand claims'],
  ['ttls)', 'one an unanswered renewal'],
  ['without(each, range)', 'two at most'],
  ['before, written', 'what is left at both ends of a written range'],
  ['piece.values', 'as many as one statement names'],
  ['others.slice(', 'what is left at both ends of a written range'],
  ['deadlockReport(', 'a few lines for each owner of one deadlock'],
  ['advice.map(', 'a few lines of ours'],
  ['spare)', 'one a column'],
  ['(others.length', 'options of ours'],
  ['command.usage', 'help texts of ours'],
  ['command.blocks', 'help texts of ours'],
  ['command.options', 'help texts of ours'],
  ['list)', 'help texts of ours'],
  ['variables.map', 'help texts of ours'],
  ['rest)', 'the arguments of a call'],
  ['(rest as [', 'the arguments of a call'],
  ['given)', 'the arguments of a call'],
  ['where)', 'the arguments of a call'],
  ['uncleanEndings)', 'a list of ours'],
  ['absentReasons)', 'a list of ours'],
  ['theRule, ', 'a list of ours'],
  ['beforeTheFirst, ', 'two'],
  ['points, next', 'the characters of a prefix, whose length is bounded'],
  ['statement)', 'a text and its values'],
  ['inOrder(values', 'the values of one row'],
  ['values) }', 'the values of one row'],
  ['crowdValues(', 'the values of one row'],
  ['holderValues(', 'the values of one row'],
  ['newHolderValues(', 'the values of one row'],
  ['waiterValues(', 'the values of one row'],
  ['newWaiterValues(', 'the values of one row'],
  ['endedValues(', 'the values of one row'],
  ['compare.map(', 'as many as etcd allows in a transaction'],
  ['success.map(', 'as many as etcd allows in a transaction'],
  ['failure.map(', 'as many as etcd allows in a transaction'],
]

test('no list that users or stores decide the length of is spread into the arguments of a call', () => {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.endsWith('.generated.ts') && !file.startsWith('testing'),
  )
  const found = files.flatMap((file) =>
    spreadArguments(readFileSync(path.join(root, file), 'utf8'))
      .filter((code) => !short.some(([allowed]) => code.startsWith(allowed)))
      .map((code) => `${file}: ...${code}`),
  )
  expect(found).toEqual([])
})

test('a spread is found in any call, also over several lines, and nowhere else', () => {
  const calls = ['list.push(...a)', 'call(b.c, f(1), ...a)', 'new Set(x)\nMath.max(\n  0,\n  ...a,\n)', 'f?.(...a)(1)']
  for (const code of calls) expect(spreadArguments(code).length, code).toBe(1)
  const others = ['[...a]', 'f({ ...a }, [...b])', 'function f(...a: string[]) {}', '(x, ...rest) => x', "'f(...a)'"]
  for (const code of others) expect(spreadArguments(code), code).toEqual([])
})
