import { LeaseholdError } from '../../../core/errors.ts'

export interface Endpoint {
  readonly host: string
  readonly port: number
}

/** Where the nodes of an etcd are, and how to sign in. */
export interface EtcdAddress {
  readonly endpoints: readonly Endpoint[]
  readonly tls: boolean
  readonly login?: { readonly user: string; readonly password: string }
  readonly prefix?: string
}

const portDefault = 2379

/** Reads `etcd://user:password@host:port,host:port/PREFIX`, and `etcds://…` for TLS. */
export function parseEtcdUrl(url: string): EtcdAddress {
  const [, scheme, login, hosts = '', path = ''] =
    /^(etcds?):\/\/(?:([^/?#]*)@)?([^@/?#]+)(?:\/([^?#]*))?$/s.exec(url) ?? []
  const urls = hosts.split(',').map((host) => `http://${host}`)
  if (scheme === undefined || !urls.every((one) => URL.canParse(one))) throw invalid()
  const nodes = urls.map((one) => new URL(one))
  if (nodes.some(({ hostname }) => hostname === '')) throw invalid()
  return {
    endpoints: nodes.map((node, index) => endpointOf(node, hosts.split(',')[index] ?? '')),
    tls: scheme === 'etcds',
    ...(login !== undefined && { login: loginOf(login) }),
    ...(path !== '' && { prefix: decoded(path) }),
  }
}

/** How people write an endpoint. */
export function describeEndpoint({ host, port }: Endpoint): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

function endpointOf({ hostname }: URL, text: string): Endpoint {
  // A parsed URL has lost a port that is usual for its scheme, which is not usual for etcd.
  const port = /:(\d+)$/.exec(text)?.[1]
  return { host: hostname.replaceAll(/^\[|\]$/g, ''), port: port === undefined ? portDefault : Number(port) }
}

function loginOf(login: string): { readonly user: string; readonly password: string } {
  const [user = '', password] = login.split(/:(.*)/s, 2)
  if (user === '' || password === undefined) throw invalid()
  return { user: decoded(user), password: decoded(password) }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid()
  }
}

/** Says nothing of the URL itself: it may hold a password. */
function invalid(): LeaseholdError {
  const forms = 'etcd://host:2379, etcd://user:password@host,host,host/PREFIX, or etcds://… for TLS'
  return new LeaseholdError('INVALID', `This is not the URL of an etcd. Use ${forms}.`)
}
