import { LeaseholdError } from '../../../core/errors.ts'
import { decodedPart, hostList, urlParameters, type HostAndPort } from '../../kit/url.ts'

/** The nodes of an etcd, and the login. */
export interface EtcdAddress {
  readonly endpoints: readonly HostAndPort[]
  readonly tls: boolean
  readonly login?: { readonly user: string; readonly password: string }
  readonly prefix?: string
}

const portDefault = 2379

/** Reads `etcd://user:password@host:port,host:port/PREFIX`, also with `?prefix=PREFIX` instead, and `etcds://…` for TLS. */
export function parseEtcdUrl(url: string): EtcdAddress {
  const [, scheme, login, hosts = '', path = '', query = ''] =
    /^(etcds?):\/\/(?:([^/?#]*)@)?([^@/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/s.exec(url) ?? []
  if (scheme === undefined) throw invalid()
  const endpoints = hostList(hosts, portDefault, invalid)
  const prefix = urlParameters(query, { prefix: true }, 'an etcd URL', invalid).get('prefix')
  if (prefix !== undefined && path !== '') throw invalid()
  return {
    endpoints,
    tls: scheme === 'etcds',
    ...(login !== undefined && { login: loginOf(login) }),
    ...(path !== '' && { prefix: decodedPart(path, invalid) }),
    ...(prefix !== undefined && { prefix }),
  }
}

function loginOf(login: string): { readonly user: string; readonly password: string } {
  const [user = '', password] = login.split(/:(.*)/s, 2)
  if (user === '' || password === undefined) throw invalid()
  return { user: decodedPart(user, invalid), password: decodedPart(password, invalid) }
}

/** Says nothing of the URL itself: it may hold a password. */
function invalid(): LeaseholdError {
  const forms =
    'etcd://host:2379, etcd://user:password@host,host,host/PREFIX, etcd://host?prefix=PREFIX, or etcds://… for TLS'
  return new LeaseholdError('INVALID', `This is not the URL of an etcd. Use ${forms}.`)
}
