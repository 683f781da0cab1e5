import { LeaseholdError } from '../core/errors.ts'

/** What an answer in this format says of itself: the text format of Prometheus, version 0.0.4. */
export const contentType = 'text/plain; version=0.0.4; charset=utf-8'

/** Names of labels with their values. */
export type Labels = Readonly<Record<string, string>>

/** One number of a family. */
export interface Sample {
  readonly labels: Labels
  readonly value: number
}

/** One histogram of a family. */
export interface Distribution {
  readonly labels: Labels
  /** How many were at most `le`, by rising `le`. The bucket without an end is added. */
  readonly buckets: readonly { readonly le: number; readonly count: number }[]
  readonly sum: number
  readonly count: number
}

interface Heading {
  /** As it is published: a counter's ends in `_total` by convention. */
  readonly name: string
  readonly help: string
}

/** Everything that is published under one name. */
export type Family =
  | (Heading & { readonly type: 'counter' | 'gauge'; readonly samples: readonly Sample[] })
  | (Heading & { readonly type: 'histogram'; readonly samples: readonly Distribution[] })

const metricForm = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
// Two underscores in front are Prometheus's own.
const labelForm = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/

/**
 * The text that Prometheus reads. Families of one name, as two clients have them, are written as one. A name that
 * Prometheus would not take is INVALID; a label's value may be any text.
 */
export function exposition(families: Iterable<Family>): string {
  const groups = new Map<string, Family[]>()
  for (const family of families) {
    const first = groups.get(checkMetricName(family.name))?.[0]
    if (first === undefined) groups.set(family.name, [family])
    else if (first.type === family.type) groups.get(family.name)?.push(family)
    else throw invalid(`${family.name} is a ${first.type} and a ${family.type}. Give one of the two another name`)
  }
  return [...groups.values()].map(groupText).join('')
}

/** Throws INVALID unless Prometheus takes the names, and the values are text. @internal */
export function checkLabels(labels: Labels): Labels {
  for (const [name, value] of Object.entries(labels)) {
    if (!labelForm.test(name))
      throw invalid(
        `A label cannot be called ${JSON.stringify(name)}. Use letters, digits and '_', not two '_' in front`,
      )
    if (typeof value !== 'string') throw invalid(`The label "${name}" must be text, not ${String(value)}`)
  }
  return labels
}

function checkMetricName(name: string): string {
  if (metricForm.test(name)) return name
  throw invalid(`A metric cannot be called ${JSON.stringify(name)}. Use letters, digits, '_' and ':'`)
}

function groupText(group: readonly Family[]): string {
  const [first] = group
  if (first === undefined) return ''
  const { name, help, type } = first
  const lines = [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`]
  for (const family of group) {
    if (family.type === 'histogram') for (const each of family.samples) lines.push(...distributionLines(name, each))
    else for (const { labels, value } of family.samples) lines.push(sampleLine(name, labels, value))
  }
  return `${lines.join('\n')}\n`
}

function distributionLines(name: string, { labels, buckets, sum, count }: Distribution): string[] {
  if ('le' in labels) throw invalid(`A histogram keeps the label "le" for itself. Call that of ${name} something else`)
  const all = [...buckets, { le: Infinity, count }]
  return [
    ...all.map((bucket) => sampleLine(`${name}_bucket`, { ...labels, le: numberText(bucket.le) }, bucket.count)),
    sampleLine(`${name}_sum`, labels, sum),
    sampleLine(`${name}_count`, labels, count),
  ]
}

function sampleLine(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(checkLabels(labels)).map(([label, text]) => `${label}="${quotable(text)}"`)
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${numberText(value)}`
}

function quotable(text: string): string {
  return escaped(text).replaceAll('"', '\\"')
}

/** Half a surrogate pair has no form in UTF-8: it is replaced, as everywhere. */
function escaped(text: string): string {
  return text.toWellFormed().replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

function numberText(value: number): string {
  if (typeof value !== 'number') throw invalid(`A metric is a number, not ${String(value)}`)
  if (value === Infinity) return '+Inf'
  return value === -Infinity ? '-Inf' : String(value)
}

function invalid(what: string): LeaseholdError {
  return new LeaseholdError('INVALID', `${what}.`)
}
