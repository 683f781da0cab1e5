/**
 * What S3 answers in XML, as far as it is used here: a flat list of names, and faults. Read by hand and strictly, as names of objects
 * are asked for in URL encoding, and so have no markup in them.
 */
import type { ObjectPage } from './bucket.ts'

/** A listing. Throws if the text is none. */
export function readListing(text: string): ObjectPage {
  const body = /<ListBucketResult[\s>](.*)<\/ListBucketResult>\s*$/s.exec(text)?.[1]
  const isTruncated = body === undefined ? undefined : element(body, 'IsTruncated')
  if (body === undefined || (isTruncated !== 'true' && isTruncated !== 'false')) throw unreadable('a listing')
  const objects = [...body.matchAll(/<Contents>(.*?)<\/Contents>/gs)].map(([, entry = '']) => {
    const name = element(entry, 'Key')
    const size = element(entry, 'Size')
    if (name === undefined || size === undefined || !/^\d+$/.test(size)) throw unreadable('a listing')
    return { name: decoded(name), bytes: Number(size) }
  })
  return { objects, isLast: isTruncated === 'false' }
}

/** A fault's own name, message and region; empty texts if the body is none of S3's, such as a proxy's. */
export function readFault(text: string): { readonly code: string; readonly message: string; readonly region?: string } {
  const body = /<Error>(.*)<\/Error>/s.exec(text)?.[1] ?? ''
  const region = element(body, 'Region')
  const message = plain(element(body, 'Message') ?? '').slice(0, 300)
  return { code: element(body, 'Code') ?? '', message, ...(region !== undefined && { region }) }
}

function element(text: string, name: string): string | undefined {
  return new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1]
}

function plain(text: string): string {
  const signs: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }
  return text.replaceAll(/&(amp|lt|gt|quot|apos);/g, (_, name: string) => signs[name] ?? '')
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(plain(name).replaceAll('+', ' '))
  } catch {
    throw unreadable('a listing')
  }
}

/** Not S3, or a proxy in front of it. */
function unreadable(what: string): Error {
  return new Error(`The answer is not ${what} of S3`)
}
