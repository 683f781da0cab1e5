/**
 * Comments for two readers: a sentence for people, and JSON in a fold below it for machines.
 *
 * The first line says what the comment is, so that it is still known for a claim after somebody broke its JSON.
 */
export type CommentKind = 'claim' | 'takeover' | 'lock'

const markers: Readonly<Record<CommentKind, string>> = {
  claim: '<!-- leasehold:claim -->',
  takeover: '<!-- leasehold:takeover -->',
  lock: '<!-- leasehold:lock -->',
}

/** The text of a comment or an issue. */
export function commentText(kind: CommentKind, sentence: string, document: unknown): string {
  // A backtick inside would end the block it stands in.
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

/** Whether a text calls itself one of ours. Anybody can write that: see `trusted-authors.ts`. */
export function isText(kind: CommentKind, body: string): boolean {
  return body.trimStart().startsWith(markers[kind])
}

/** The JSON of a text of ours; undefined if there is none, or if it has been broken. */
export function documentIn(kind: CommentKind, body: string): Readonly<Record<string, unknown>> | undefined {
  if (!isText(kind, body)) return undefined
  const [, json] = /```json\r?\n([\s\S]*?)\r?\n```/.exec(body) ?? []
  try {
    return objectOf(JSON.parse(json ?? ''))
  } catch {
    return undefined
  }
}

export function objectOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isRecord ? (value as Record<string, unknown>) : undefined
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= 1024 ? value : undefined
}

export function wholeNumberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined
}

/** A time as GitHub writes it. */
export function timeText(time: number): string {
  return new Date(time).toISOString().replace(/\.\d+Z$/, 'Z')
}

export function timeOf(value: unknown): number | undefined {
  const time = typeof value === 'string' ? Date.parse(value) : NaN
  return Number.isNaN(time) ? undefined : time
}

/** A time as people read it. */
export function clockText(time: number): string {
  return `${timeText(time).replace('T', ' ').replace('Z', '')} UTC`
}

/** A name inside a sentence: whatever it is made of, it formats nothing and calls nobody. */
export function nameText(name: string): string {
  const plain = name.replaceAll(/[`\s]+/g, ' ').trim()
  return `\`${plain.length > 80 ? `${plain.slice(0, 79)}…` : plain || '?'}\``
}

/** A comment as GitHub has it. Times are GitHub's own, in milliseconds, and only to the whole second. */
export interface Comment {
  /** GitHub's ids only grow: they are the queue, and the fence. */
  readonly id: number
  readonly issue: number
  readonly author: string
  readonly body: string
  readonly createdAt: number
  readonly updatedAt: number
}

/** GitHub tells times in whole seconds, rounded down: what it says may be this much too early. */
export const roundingMs = 1000
