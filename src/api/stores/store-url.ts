import type { Duration } from '../../core/time/duration.ts'
import { LeaseholdError } from '../../core/errors.ts'
import path from 'node:path'
import { defaultFile } from '../../core/machine/directories.ts'
import { realpathSync } from 'node:fs'
import { identifyingParameters } from '../../core/contract/redaction.ts'

/** The URLs of a quorum's stores, and the options behind them. */
export interface QuorumUrl {
  readonly urls: readonly string[]
  readonly options: QuorumUrlOptions
}

/** The options of `quorum` that fit in a URL. */
interface QuorumUrlOptions {
  votesAfter?: Duration
  answerWithin?: Duration
  drift?: number
}

/**
 * Parses what follows `quorum:`: URLs separated by commas, then options after `,?`, if any. A `?` without the comma belongs to
 * the last store's URL.
 */
export function parseQuorum(list: string): QuorumUrl {
  const [, stores = list, query = ''] = /^(.*),\?([^?]*)$/s.exec(list) ?? []
  return { urls: urlsOf(stores), options: optionsOf(new URLSearchParams(query)) }
}

/** Splits at commas that a URL follows: hosts, files and passwords may contain commas too. */
function urlsOf(stores: string): string[] {
  const urls = stores.split(/,(?=(?:memory|sqlite|quorum):|[a-z][a-z0-9+.-]*:\/\/)/)
  if (urls.some((url) => url.startsWith('quorum:'))) {
    throw new LeaseholdError('INVALID', 'A quorum cannot be a node of a quorum. Name its stores instead.')
  }
  refuseSameStores(urls)
  return urls
}

/** Refuses a store that is named twice: with two votes it could be a majority of its own. */
function refuseSameStores(urls: readonly string[]): void {
  const places = new Set<string>()
  for (const url of urls) {
    // Each unnamed memory is a store of its own.
    if (url === 'memory:') continue
    const { url: place } = identifyStore(url)
    if (places.has(place)) {
      throw new LeaseholdError('INVALID', `The store ${place} is there twice in a quorum: it would vote twice.`)
    }
    places.add(place)
  }
}

function optionsOf(query: URLSearchParams): QuorumUrlOptions {
  const options: QuorumUrlOptions = {}
  for (const [name, value] of query) {
    if (Object.hasOwn(options, name)) throw invalid(`${name} is there twice`)
    switch (name) {
      case 'votesAfter':
      case 'answerWithin':
        options[name] = durationOf(value)
        break
      case 'drift':
        options.drift = value.trim() === '' ? Number.NaN : Number(value)
        break
      default:
        throw invalid(`there is no option ${JSON.stringify(name)}`)
    }
  }
  return options
}

/** A number without a unit is in milliseconds. The quorum checks the value. */
function durationOf(text: string): Duration {
  return /^\d+$/.test(text) ? Number(text) : (text as Duration)
}

function invalid(fault: string): LeaseholdError {
  const example = 'quorum:URL,URL,URL,?votesAfter=2m&answerWithin=500ms&drift=0.02'
  return new LeaseholdError('INVALID', `In the URL of a quorum ${fault}. Options follow the stores, as in ${example}`)
}

/** The absolute path of the file after `sqlite:`; the default file if there is none. */
export function sqliteFile(rest: string): string {
  return path.resolve(rest === '' ? defaultFile() : checkFile(rest))
}

/** Refuses parameters and `//`, which other programs allow there: taken as a file's name, they would name another file. */
export function checkFile(rest: string): string {
  if (rest.startsWith('//')) {
    const file = rest.replace(/^\/+/, '')
    throw new LeaseholdError(
      'INVALID',
      `${JSON.stringify(`sqlite:${rest}`)} can be read in two ways. ` +
        `Write sqlite:/${file} for a path from the root, sqlite:${file} for one from here.`,
    )
  }
  if (!rest.includes('?')) return rest
  const [file] = rest.split('?')
  throw new LeaseholdError('INVALID', `The URL of an SQLite store takes no parameters. Write sqlite:${file}`)
}

/** Which store a URL names. */
export interface StoreIdentity {
  /** The URL without anything that may be secret, in one normal form for each store. */
  readonly url: string
  /** Whether `url` is enough to open the store. False if a part was left out: a password, say. */
  readonly isWhole: boolean
}

const portDefaults: Readonly<Record<string, string>> = {
  redis: '6379',
  rediss: '6379',
  postgres: '5432',
  'postgres-advisory': '5432',
  mongodb: '27017',
  mysql: '3306',
  mariadb: '3306',
  etcd: '2379',
  etcds: '2379',
  nats: '4222',
  natss: '4222',
  http: '80',
  https: '443',
}

/** Schemes of one store: by the server, or by the client that is to be tried first. */
const sameStore: Readonly<Record<string, string>> = { postgresql: 'postgres', mariadb: 'mysql' }

/** The identity of the store that a URL names. Hosts are not resolved: another name of a host counts as another store. */
export function identifyStore(url: string): StoreIdentity {
  const [, scheme = '', rest = ''] = /^([^:]*):(.*)$/s.exec(url) ?? []
  if (scheme === 'sqlite') return { url: `sqlite:${realFile(sqliteFile(rest))}`, isWhole: true }
  return identifyAddress(sameStore[scheme] ?? scheme, rest)
}

function identifyAddress(scheme: string, rest: string): StoreIdentity {
  const split = rest.indexOf('?')
  const address = split < 0 ? rest : rest.slice(0, split)
  const parameters = split < 0 ? [] : rest.slice(split + 1).split('&')
  const kept = parameters.filter((parameter) => identifyingParameters.has(parameter.split('=')[0] ?? ''))
  // Leave out everything before the last @: a password with an unescaped slash must not end up in a file.
  const [, slashes = '', login = '', place = ''] = /^(\/\/)?(.*@)?(.*)$/s.exec(address) ?? []
  const search = kept.length === 0 ? '' : `?${kept.toSorted().join('&')}`
  return {
    url: `${scheme}:${slashes}${normalAddress(scheme, place)}${search}`,
    isWhole: login === '' && kept.length === parameters.length,
  }
}

/** The normal form of an address: hosts and GitHub's names in lower case, without default ports and databases. */
function normalAddress(scheme: string, place: string): string {
  // Tables are told apart by case.
  if (scheme === 'dynamodb') return place.replace(/\/$/, '')
  if (scheme === 'github') return place.toLowerCase()
  const [, hosts = '', rest = ''] = /^([^/]*)(.*?)\/?$/s.exec(place) ?? []
  const port = portDefaults[scheme]
  const isDefault = (host: string): boolean => port !== undefined && host.endsWith(`:${port}`)
  const named = hosts.toLowerCase().split(',')
  const plain = named.map((host) => (isDefault(host) ? host.slice(0, host.lastIndexOf(':')) : host)).join(',')
  return scheme.startsWith('redis') && rest === '/0' ? plain : `${plain}${rest}`
}

/** The real path of a file, which may have several names. */
function realFile(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    return file // The file does not exist, or its path may not be read.
  }
}
