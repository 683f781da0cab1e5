import type { Duration } from '../../core/time/duration.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { identifyStore } from './store-identity.ts'

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
 * Reads what follows `quorum:`: URLs with commas between them, then perhaps options after `,?`. What follows a `?` alone
 * belongs to the last store's URL.
 */
export function parseQuorum(list: string): QuorumUrl {
  const [, stores = list, query = ''] = /^(.*),\?([^?]*)$/s.exec(list) ?? []
  return { urls: urlsOf(stores), options: optionsOf(new URLSearchParams(query)) }
}

/** A comma ends a URL only where the next begins: hosts, files and passwords may have commas too. */
function urlsOf(stores: string): string[] {
  const urls = stores.split(/,(?=(?:memory|sqlite|quorum):|[a-z][a-z0-9+.-]*:\/\/)/)
  if (urls.some((url) => url.startsWith('quorum:'))) {
    throw new LeaseholdError('INVALID', 'A quorum cannot be a node of a quorum. Name its stores instead.')
  }
  refuseSameStores(urls)
  return urls
}

/** One store behind two votes would be a majority of its own. */
function refuseSameStores(urls: readonly string[]): void {
  const places = new Set<string>()
  for (const url of urls) {
    // Every private memory is a store of its own.
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

/** Milliseconds unless a unit follows, as everywhere. What makes no sense the quorum refuses. */
function durationOf(text: string): Duration {
  return /^\d+$/.test(text) ? Number(text) : (text as Duration)
}

function invalid(what: string): LeaseholdError {
  const example = 'quorum:URL,URL,URL,?votesAfter=2m&answerWithin=500ms&drift=0.02'
  return new LeaseholdError('INVALID', `In the URL of a quorum ${what}. Options follow the stores, as in ${example}`)
}
