/**
 * The kind of a comment. Comments have a sentence for people, and JSON for machines in a fold below it. A marker in the
 * first line names the kind, so that a claim is still recognised after somebody broke its JSON.
 */
export type CommentKind = 'claim' | 'takeover' | 'turn' | 'lock'

const markers: Readonly<Record<CommentKind, string>> = {
  claim: '<!-- leasehold:claim -->',
  takeover: '<!-- leasehold:takeover -->',
  turn: '<!-- leasehold:turn -->',
  lock: '<!-- leasehold:lock -->',
}

/** The text of a comment or an issue. */
export function commentText(kind: CommentKind, sentence: string, document: unknown): string {
  // Three backticks in the JSON would end its code block.
  const json = JSON.stringify(document, undefined, 2).replaceAll('`', '\\u0060')
  return `${markers[kind]}
${sentence}

<details>
<summary>For machines</summary>

\`\`\`json
${json}
\`\`\`

</details>
`
}

/** Whether a text has the marker of a kind. Anybody can write one: see `trusted-authors.ts`. */
export function isText(kind: CommentKind, body: string): boolean {
  return body.trimStart().startsWith(markers[kind])
}

/** The JSON of a comment of that kind; undefined if it is missing or broken. */
export function documentIn(kind: CommentKind, body: string): Readonly<Record<string, unknown>> | undefined {
  if (!isText(kind, body)) return undefined
  const [, json] = /```json\r?\n([\s\S]*?)\r?\n```/.exec(body) ?? []
  try {
    return objectOf(JSON.parse(json ?? ''))
  } catch {
    return undefined
  }
}

/** The value, if it is a plain object. */
export function objectOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isRecord ? (value as Record<string, unknown>) : undefined
}

/** The value, if it is a text of 1 to 1024 characters. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= 1024 ? value : undefined
}

/** The value, if it is a whole number from 0 on. */
export function wholeNumberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined
}

/** A time in the format of GitHub. */
export function timeText(time: number): string {
  return new Date(time).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** The time in milliseconds, if the value is a date. */
export function timeOf(value: unknown): number | undefined {
  const time = typeof value === 'string' ? Date.parse(value) : NaN
  return Number.isNaN(time) ? undefined : time
}

/** A time for people to read. */
export function clockText(time: number): string {
  return `${timeText(time).replace('T', ' ').replace('Z', '')} UTC`
}

/** A name as inline code, so that it formats nothing and mentions nobody. */
export function nameText(name: string): string {
  const plain = name.replaceAll(/[`\s]+/g, ' ').trim()
  return `\`${plain.length > 80 ? `${plain.slice(0, 79)}…` : plain || '?'}\``
}

/** A comment on GitHub. Times are GitHub's own, in milliseconds, rounded down to whole seconds. */
export interface Comment {
  /** Ids only grow: they order the queue, and are the fences. */
  readonly id: number
  readonly issue: number
  readonly author: string
  readonly body: string
  readonly createdAt: number
  readonly updatedAt: number
}

/** GitHub rounds times down to whole seconds: a time may be this much too early. */
export const roundingMs = 1000
