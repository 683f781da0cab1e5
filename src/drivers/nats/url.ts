import { LeaseholdError } from '../../core/errors.ts'
import { decodedPart, hostList, urlParameters, type HostAndPort } from '../kit/url.ts'

/** The servers of a NATS, the login, and what else a URL says. */
export interface NatsAddress {
  readonly servers: readonly HostAndPort[]
  readonly login: { readonly token: string } | { readonly user: string; readonly pass: string } | undefined
  readonly isSecure: boolean
  readonly bucket?: string
}

const portDefault = 4222

/** Reads `nats://user:password@host:port,host:port?bucket=NAME`, or `nats://token@host`, and `natss://…` for TLS. */
export function parseNatsUrl(url: string): NatsAddress {
  const [, scheme, login, hosts = '', query = ''] =
    /^(natss?):\/\/(?:([^/?#]*)@)?([^@/?#]+)\/?(?:\?([^#]*))?$/s.exec(url) ?? []
  if (scheme === undefined) throw invalid()
  const bucket = urlParameters(query, { bucket: true }, 'a NATS URL', invalid).get('bucket')
  return {
    servers: hostList(hosts, portDefault, invalid),
    login: login === undefined ? undefined : loginOf(login),
    isSecure: scheme === 'natss',
    ...(bucket !== undefined && { bucket }),
  }
}

function loginOf(text: string): NatsAddress['login'] {
  const [user = '', pass] = text.split(/:(.*)/s, 2)
  if (user === '') throw invalid()
  if (pass === undefined) return { token: decodedPart(user, invalid) }
  return { user: decodedPart(user, invalid), pass: decodedPart(pass, invalid) }
}

/** Says nothing of the URL itself: it may hold a password. */
function invalid(): LeaseholdError {
  const forms = 'nats://host:4222, nats://user:password@host,host,host?bucket=NAME, or natss://… for TLS'
  return new LeaseholdError('INVALID', `This is not the URL of a NATS. Use ${forms}.`)
}
