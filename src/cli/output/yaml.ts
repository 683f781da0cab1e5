import { printable } from '../../core/printable.ts'

/** A document in YAML, after `---`. Every text is quoted, as JSON is, so that none is taken for a number or a date. */
export function yamlDocument(value: object): string {
  return `---\n${linesOf(value)
    .map((line) => `${line}\n`)
    .join('')}`
}

function linesOf(value: object): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => indented('- ', item))
  const entries = Object.entries(value).filter(([, field]) => field !== undefined)
  return entries.flatMap(([name, field]) => {
    if (!isNested(field)) return [`${keyOf(name)}: ${scalar(field)}`]
    return [`${keyOf(name)}:`, ...linesOf(field).map((line) => `  ${line}`)]
  })
}

/** An item of a list: the first line after its dash, the others below. */
function indented(dash: string, item: unknown): string[] {
  if (!isNested(item)) return [`${dash}${scalar(item)}`]
  return linesOf(item).map((line, index) => (index === 0 ? dash : '  ') + line)
}

/** Whether the value has lines of its own. An empty list or object has none. */
function isNested(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.values(value).some((field) => field !== undefined)
}

function keyOf(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) && !/^(?:true|false|null|yes|no|on|off|y|n)$/i.test(name) ? name : scalar(name)
}

function scalar(value: unknown): string {
  return printable(JSON.stringify(value) ?? 'null')
}
