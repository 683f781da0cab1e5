import { realpathSync } from 'node:fs'
import { identifyingParameters } from '../../core/redaction.ts'
import { sqliteFile } from './sqlite-url.ts'

/** Which store a URL names. */
export interface StoreIdentity {
  /** The URL without what may be a secret, written the same way for the same store. */
  readonly url: string
  /** Whether the URL says no more than this. Else it takes more to open the store: a password, say. */
  readonly isWhole: boolean
}

const portDefaults: Readonly<Record<string, string>> = {
  redis: '6379',
  rediss: '6379',
  postgres: '5432',
  'postgres-advisory': '5432',
  mongodb: '27017',
  etcd: '2379',
  etcds: '2379',
  http: '80',
  https: '443',
}

/** The identity of the one store that a URL names. No name is looked up: another name of a host is another store. */
export function identifyStore(url: string): StoreIdentity {
  const [, scheme = '', rest = ''] = /^([^:]*):(.*)$/s.exec(url) ?? []
  if (scheme === 'sqlite') return { url: `sqlite:${realFile(sqliteFile(rest))}`, isWhole: true }
  return ofAddress(scheme === 'postgresql' ? 'postgres' : scheme, rest)
}

function ofAddress(scheme: string, rest: string): StoreIdentity {
  const split = rest.indexOf('?')
  const address = split < 0 ? rest : rest.slice(0, split)
  const parameters = split < 0 ? [] : rest.slice(split + 1).split('&')
  const kept = parameters.filter((parameter) => identifyingParameters.has(parameter.split('=')[0] ?? ''))
  // Whoever forgot to escape a slash in a password does not find it in a file: all before the last @ is left out.
  const [, slashes = '', login = '', place = ''] = /^(\/\/)?(.*@)?(.*)$/s.exec(address) ?? []
  const search = kept.length === 0 ? '' : `?${kept.toSorted().join('&')}`
  return {
    url: `${scheme}:${slashes}${sameWay(scheme, place)}${search}`,
    isWhole: login === '' && kept.length === parameters.length,
  }
}

/** Hosts, and GitHub's names, are the same in capitals; what goes without saying is not said. */
function sameWay(scheme: string, place: string): string {
  if (scheme === 'github') return place.toLowerCase()
  const [, hosts = '', path = ''] = /^([^/]*)(.*?)\/?$/s.exec(place) ?? []
  const port = portDefaults[scheme]
  const isDefault = (host: string): boolean => port !== undefined && host.endsWith(`:${port}`)
  const named = hosts.toLowerCase().split(',')
  const plain = named.map((host) => (isDefault(host) ? host.slice(0, host.lastIndexOf(':')) : host)).join(',')
  return scheme.startsWith('redis') && path === '/0' ? plain : `${plain}${path}`
}

/** A file may have several names. */
function realFile(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    return file // There is no such file, or it cannot be looked at.
  }
}
