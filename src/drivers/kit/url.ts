import { checkOptions } from '../../core/contract/option-names.ts'
import { LeaseholdError } from '../../core/errors.ts'

/** A host, IPv6 without brackets, and its port. */
export interface HostAndPort {
  readonly host: string
  readonly port: number
}

/** A part of a URL, decoded. Throws what `invalid` makes, which must not repeat the URL: it may hold a password. */
export function decodedPart(text: string, invalid: () => LeaseholdError): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid()
  }
}

/** `host`, `host:port` or `[ipv6]:port`. Read from the text: a parsed URL drops the port that is usual for its scheme. */
export function hostAndPort(text: string, portDefault: number, invalid: () => LeaseholdError): HostAndPort {
  const [, ipv6, name, digits] = /^(?:\[([\da-fA-F:.]+)\]|([^:[\]@/?#\s]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  const host = ipv6 ?? name
  const port = digits === undefined ? portDefault : Number(digits)
  if (host === undefined || port < 1 || port > 65_535) throw invalid()
  return { host, port }
}

/** `host:port,host`: at least one, none empty. */
export function hostList(text: string, portDefault: number, invalid: () => LeaseholdError): readonly HostAndPort[] {
  return text.split(',').map((host) => hostAndPort(host, portDefault, invalid))
}

/**
 * The parameters behind the `?` of a URL: known names only, each once. A bare `@` is refused with `invalid`: it ends a password with an
 * unescaped `?`, and the names of such parameters must not be repeated.
 */
export function urlParameters(
  query: string,
  known: object,
  whose: string,
  invalid: () => LeaseholdError,
): ReadonlyMap<string, string> {
  if (query.includes('@')) throw invalid()
  const given = [...new URLSearchParams(query)]
  const parameters = new Map(given)
  checkOptions(Object.fromEntries(parameters), known, whose)
  if (parameters.size === given.length) return parameters
  throw new LeaseholdError('INVALID', `A parameter of ${whose} is there twice. Name each once.`)
}

/** The host and port as a URL has them: IPv6 in brackets. */
export function hostText({ host, port }: HostAndPort): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
