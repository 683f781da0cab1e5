/** Signatures of AWS, version 4, for requests whose body is a text. */

/** What a request is signed with. */
export interface S3Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
  /** A function that gives credentials is asked again a minute before this. */
  readonly expiration?: Date | undefined
}

/** A request as it will be sent. */
export interface UnsignedRequest {
  readonly method: string
  /** Its path and query are sent as they are: encoded as {@link encodedText} does. */
  readonly url: URL
  /** Names in lower case. All of them are signed, so that nothing on the way can drop a condition. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The headers of the request, with those that sign it. `date` is when it is sent. */
export async function signedHeaders(
  { method, url, headers, body }: UnsignedRequest,
  credentials: S3Credentials,
  { region, date }: { readonly region: string; readonly date: Date },
): Promise<Record<string, string>> {
  const { accessKeyId, sessionToken } = credentials
  const time = date.toISOString().replaceAll(/[:-]|\.\d{3}/g, '')
  const bodyHash = hex(await crypto.subtle.digest('SHA-256', bytes(body)))
  const sent: Record<string, string> = { ...headers, 'x-amz-content-sha256': bodyHash, 'x-amz-date': time }
  if (sessionToken !== undefined) sent['x-amz-security-token'] = sessionToken
  const signed = Object.entries({ ...sent, host: url.host }).toSorted(([one], [other]) => (one < other ? -1 : 1))
  const names = signed.map(([name]) => name).join(';')
  const query = [...url.searchParams].map(([name, value]) => `${encodedText(name)}=${encodedText(value)}`).toSorted()
  const lines = signed.map(([name, value]) => `${name}:${value.trim().replaceAll(/ +/g, ' ')}\n`).join('')
  const canonical = [method, url.pathname, query.join('&'), lines, names, bodyHash].join('\n')
  const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`
  const hash = hex(await crypto.subtle.digest('SHA-256', bytes(canonical)))
  const key = await signingKey(credentials, scope)
  const signature = hex(
    await crypto.subtle.sign('HMAC', key, bytes(['AWS4-HMAC-SHA256', time, scope, hash].join('\n'))),
  )
  sent['authorization'] =
    `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`
  return sent
}

/** Encoded for a URL as signatures want it: all but letters, digits and `-._~`. */
export function encodedText(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
}

type HmacKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>

/** The key of a day, a region and a secret: made once, as it takes most of the work. */
const signingKeys = new WeakMap<S3Credentials, { readonly scope: string; readonly key: Promise<HmacKey> }>()

function signingKey(credentials: S3Credentials, scope: string): Promise<HmacKey> {
  const known = signingKeys.get(credentials)
  if (known?.scope === scope) return known.key
  const key = derivedKey(credentials.secretAccessKey, scope)
  signingKeys.set(credentials, { scope, key })
  return key
}

async function derivedKey(secret: string, scope: string): Promise<HmacKey> {
  let key = await hmacKey(bytes(`AWS4${secret}`))
  for (const part of scope.split('/')) key = await hmacKey(await crypto.subtle.sign('HMAC', key, bytes(part)))
  return key
}

function hmacKey(key: ArrayBuffer | Uint8Array<ArrayBuffer>): Promise<HmacKey> {
  return crypto.subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text)
}

function hex(buffer: ArrayBuffer): string {
  return Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The SHA-256 of a text, in hex. */
export async function sha256Hex(text: string): Promise<string> {
  return hex(await crypto.subtle.digest('SHA-256', bytes(text)))
}
