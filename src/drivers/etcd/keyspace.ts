import { LeaseholdError } from '../../core/errors.ts'

/** Keys of etcd from `key` up to, not including, `end`. */
export interface KeyRange {
  readonly key: string
  readonly end: Buffer
}

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const prefixForm = /^[^\u0000-\u001f\u007f-\u009f]{1,200}$/

/**
 * What things are called in etcd. `lock/KEY` has the document of a key, `alive/KEY%:ID` is there for as long as a claim
 * lives, `alive/KEY%?ID` asks its owner for a sign of life, `notification/CHANNEL/KEY` is news for whoever looks after a claim, and `over/ID` is in the way of a claim that comes too
 * late. `since` is there for as long as etcd has kept all that. A '%' of a key is written as '%25', so that no marker of one key looks like one of another.
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

  /** Whose marker this is. */
  claimOfMarker(name: string): { readonly key: string; readonly id: string } {
    const { key, id } = this.#partsOf(name)
    return { key, id }
  }

  /** There while somebody wants to know whether a claim still has an owner. */
  probe(key: string, id: string): string {
    return `${this.prefix}alive/${escaped(key)}%?${id}`
  }

  /** Every marker of a key, and every question about one. */
  markersAndProbes(key: string): KeyRange {
    // The character after '?', which comes after ':'.
    return { key: this.#markersOf(key), end: Buffer.from(`${this.prefix}alive/${escaped(key)}%@`) }
  }

  isProbe(name: string): boolean {
    return this.#partsOf(name).separator === '?'
  }

  /** A key has no '%' but in '%25', so the first other one ends it. */
  #partsOf(name: string): { readonly key: string; readonly separator: string; readonly id: string } {
    const [key = '', separator = '', id = ''] = name.slice(`${this.prefix}alive/`.length).split(/%([:?])(.*)/s, 3)
    return { key: unescaped(key), separator, id }
  }

  /** That a claim is not to be made any more: there only if it may be on its way still. */
  over(id: string): string {
    return `${this.prefix}over/${id}`
  }

  notification(channel: string, key: string): string {
    return `${this.prefix}notification/${channel}/${escaped(key)}`
  }

  /** All that may ever come for a channel. */
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

/** All that begins with this. */
function spanOf(beginning: string): KeyRange {
  const end = Buffer.from(beginning)
  // What it ends with is '/', ':', or a letter of UTF-8, none of which is 0xff.
  end[end.length - 1] = (end.at(-1) as number) + 1
  return { key: beginning, end }
}
