import type { Request } from '../../core/driver.ts'
import { utf8Length } from '../../core/utf8-length.ts'

/** The requests of one call, and its body. */
export interface Body {
  readonly requests: readonly Request[]
  readonly text: string
}

const head = '{"requests":['
const tail = ']}'

/** As few bodies as the server's limits allow, in order: one, unless very much is asked for at once. */
export function bodiesOf(requests: readonly Request[], requestsMax: number, bytesMax: number): readonly Body[] {
  const whole = `${head}${requests.map((request) => JSON.stringify(request)).join()}${tail}`
  if (requests.length <= requestsMax && isWithin(whole, bytesMax)) return [{ requests, text: whole }]
  const bodies: Body[] = []
  let gathered: { requests: Request[]; texts: string[]; bytes: number } | undefined
  for (const request of requests) {
    const text = JSON.stringify(request)
    const bytes = utf8Length(text) + 1
    const isFull =
      gathered !== undefined && (gathered.requests.length >= requestsMax || gathered.bytes + bytes > bytesMax)
    if (gathered !== undefined && isFull) bodies.push(bodyOf(gathered))
    if (gathered === undefined || isFull) gathered = { requests: [], texts: [], bytes: head.length + tail.length }
    gathered.requests.push(request)
    gathered.texts.push(text)
    gathered.bytes += bytes
  }
  if (gathered !== undefined) bodies.push(bodyOf(gathered))
  return bodies
}

/** A character takes three bytes at most: only a long text is worth counting. */
function isWithin(text: string, bytesMax: number): boolean {
  return text.length * 3 <= bytesMax || utf8Length(text) <= bytesMax
}

function bodyOf({
  requests,
  texts,
}: {
  readonly requests: readonly Request[]
  readonly texts: readonly string[]
}): Body {
  return { requests, text: `${head}${texts.join()}${tail}` }
}
