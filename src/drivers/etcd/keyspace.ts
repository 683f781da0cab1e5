import { LeaseholdError } from '../../core/errors.ts'

/** Keys of etcd from `key` up to, not including, `end`. */
export interface KeyRange {
  readonly key: string
  readonly end: Buffer
}

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const prefixForm = /^[^\u0000-\u001f\u007f-\u009f]{1,200}$/

/**
 * The names of keys in etcd. `lock/KEY` is the document of a key. `alive/KEY%:ID` is the marker of a claim, there while the claim
 * lives; `alive/KEY%?ID` is a liveness probe for its owner. `notification/CHANNEL/KEY` is for the driver that keeps a claim.
 * `over/ID` keeps out a claim that arrives too late. `since` is there for as long as etcd has kept all that. A '%' of a key is
 * written as '%25', so that no marker of one key looks like one of another.
 */
export class EtcdKeyspace {
  readonly prefix: string

  constructor(prefix: string) {
    if (typeof prefix !== 'string' || !prefixForm.test(prefix) || !prefix.isWellFormed()) {
      throw new LeaseholdError('INVALID', `The prefix ${JSON.stringify(prefix)} is not usable. Use, say, 'leasehold/'.`)
    }
    this.prefix = prefix.endsWith('/') ? prefix : `${prefix}/`
  }

  /** The key whose lease tells how old the data is. */
  get since(): string {
    return `${this.prefix}since`
  }

  document(key: string): string {
    return `${this.prefix}lock/${escaped(key)}`
  }

  /** The documents of keys that begin with this, after the one called `after`. */
  documents(beginning: string, after?: string): KeyRange {
    const { key, end } = spanOf(this.document(beginning))
    const first = after === undefined ? key : `${this.document(after)}\0`
    return { key: first > key ? first : key, end }
  }

  keyOfDocument(name: string): string {
    return unescaped(name.slice(this.document('').length))
  }

  marker(key: string, id: string): string {
    return `${this.#markersOf(key)}${id}`
  }

  /** Every marker of a key. */
  markers(key: string): KeyRange {
    return spanOf(this.#markersOf(key))
  }

  /** The claim whose marker this is. */
  claimOfMarker(name: string): { readonly key: string; readonly id: string } {
    const { key, id } = this.#partsOf(name)
    return { key, id }
  }

  /** There while another driver waits for the claim's owner to prove that it lives. */
  probe(key: string, id: string): string {
    return `${this.prefix}alive/${escaped(key)}%?${id}`
  }

  /** Every marker of a key, and every probe. */
  markersAndProbes(key: string): KeyRange {
    // The character after '?', which comes after ':'.
    return { key: this.#markersOf(key), end: Buffer.from(`${this.prefix}alive/${escaped(key)}%@`) }
  }

  isProbe(name: string): boolean {
    return this.#partsOf(name).separator === '?'
  }

  /** A key has '%' only in '%25', so the first other '%' ends it. */
  #partsOf(name: string): { readonly key: string; readonly separator: string; readonly id: string } {
    const [key = '', separator = '', id = ''] = name.slice(`${this.prefix}alive/`.length).split(/%([:?])(.*)/s, 3)
    return { key: unescaped(key), separator, id }
  }

  /** Forbids a claim that may still be on its way. */
  over(id: string): string {
    return `${this.prefix}over/${id}`
  }

  notification(channel: string, key: string): string {
    return `${this.prefix}notification/${channel}/${escaped(key)}`
  }

  /** All notifications for a channel. */
  notificationKeys(channel: string): KeyRange {
    return spanOf(this.notification(channel, ''))
  }

  keyOfNotification(channel: string, name: string): string {
    return unescaped(name.slice(this.notification(channel, '').length))
  }

  #markersOf(key: string): string {
    return `${this.prefix}alive/${escaped(key)}%:`
  }
}

function escaped(key: string): string {
  return key.replaceAll('%', '%25')
}

function unescaped(text: string): string {
  return text.replaceAll('%25', '%')
}

/** All keys that begin with this. */
function spanOf(beginning: string): KeyRange {
  const end = Buffer.from(beginning)
  // The last byte is '/', ':', or part of a UTF-8 character, and so never 0xff.
  end[end.length - 1] = (end.at(-1) as number) + 1
  return { key: beginning, end }
}
