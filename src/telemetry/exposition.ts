import { LeaseholdError } from '../core/errors.ts'

/** The `Content-Type` of the text format of Prometheus, version 0.0.4. */
export const contentType = 'text/plain; version=0.0.4; charset=utf-8'

/** Label values by name. */
export type Labels = Readonly<Record<string, string>>

/** One value of a family. */
export interface Sample {
  readonly labels: Labels
  readonly value: number
}

/** One histogram of a family. */
export interface Distribution {
  readonly labels: Labels
  /** The number of values up to `le`, by rising `le`, without the bucket for +Inf. */
  readonly buckets: readonly { readonly le: number; readonly count: number }[]
  readonly sum: number
  readonly count: number
}

interface Heading {
  /** The published name; that of a counter ends in `_total` by convention. */
  readonly name: string
  readonly help: string
}

/** A metric family: everything published under one name. */
export type Family =
  | (Heading & { readonly type: 'counter' | 'gauge'; readonly samples: readonly Sample[] })
  | (Heading & { readonly type: 'histogram'; readonly samples: readonly Distribution[] })

const metricForm = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
// Prometheus reserves names that begin with two underscores.
const labelForm = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/

/**
 * Writes families in the text format of Prometheus. Joins families of the same name, as from two clients. Throws INVALID for
 * a name that Prometheus does not allow; the value of a label may be any text.
 */
export function exposition(families: Iterable<Family>): string {
  const groups = new Map<string, Family[]>()
  for (const family of families) {
    const first = groups.get(checkMetricName(family.name))?.[0]
    if (first === undefined) groups.set(family.name, [family])
    else if (first.type === family.type) groups.get(family.name)?.push(family)
    else throw invalid(`${family.name} is both a ${first.type} and a ${family.type}. Rename one of them`)
  }
  return [...groups.values()].map(groupText).join('')
}

/** Throws INVALID if Prometheus does not allow a name, or if a value is not text. @internal */
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
  if ('le' in labels) throw invalid(`A histogram reserves the label "le". Rename that of ${name}`)
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

/** Escapes a text. A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD. */
function escaped(text: string): string {
  return text.toWellFormed().replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

function numberText(value: number): string {
  if (typeof value !== 'number') throw invalid(`A metric must be a number, not ${String(value)}`)
  if (value === Infinity) return '+Inf'
  return value === -Infinity ? '-Inf' : String(value)
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', `${message}.`)
}
