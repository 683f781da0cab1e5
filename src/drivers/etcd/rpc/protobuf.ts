/** Protocol Buffers, as far as etcd's messages go: whole numbers, bytes and messages within messages. */

const varintType = 0
const lengthType = 2

/** The message whose fields these are. Fields that say nothing may be empty. */
export function message(...fields: readonly Uint8Array[]): Buffer {
  return Buffer.concat(fields)
}

const nothing = Buffer.alloc(0)

/** A field with a whole number that is not negative. Zero is what a field that is missing means. */
export function whole(field: number, value: number): Buffer {
  if (value === 0) return nothing
  const data: number[] = []
  pushVarint(data, field * 8 + varintType)
  pushVarint(data, value)
  return Buffer.from(data)
}

/** A field with bytes, text, or a message. */
export function bytes(field: number, value: Uint8Array | string): Buffer {
  const data = typeof value === 'string' ? Buffer.from(value) : value
  const head: number[] = []
  pushVarint(head, field * 8 + lengthType)
  pushVarint(head, data.length)
  return Buffer.concat([Buffer.from(head), data])
}

function pushVarint(into: number[], value: number): void {
  let rest = value
  while (rest >= 0x80) {
    into.push((rest % 0x80) + 0x80)
    rest = Math.floor(rest / 0x80)
  }
  into.push(rest)
}

/** What a field holds: a number, or bytes, which may be a message. */
export class FieldValue {
  readonly #value: number | Buffer

  constructor(value: number | Buffer) {
    this.#value = value
  }

  /** Exact below 2^53; larger ones are near it, which is enough to tell two apart. */
  get number(): number {
    if (typeof this.#value === 'number') return this.#value
    throw new BadMessage('bytes where a number belongs')
  }

  get bytes(): Buffer {
    if (typeof this.#value !== 'number') return this.#value
    throw new BadMessage('a number where bytes belong')
  }

  get text(): string {
    return this.bytes.toString()
  }
}

/** What arrived is not what etcd says. */
export class BadMessage extends Error {}

/** Shows each field of a message, in its order. */
export function readProtobufFields(data: Buffer, show: (field: number, value: FieldValue) => void): void {
  const reader = new VarintReader(data)
  while (reader.at < data.length) {
    const tag = reader.next()
    const field = Math.floor(tag / 8)
    switch (tag % 8) {
      case varintType:
        show(field, new FieldValue(reader.next()))
        break
      case lengthType: {
        const length = reader.next()
        const end = reader.at + length
        if (length < 0 || end > data.length) throw new BadMessage('a message that was cut off')
        show(field, new FieldValue(data.subarray(reader.at, end)))
        reader.at = end
        break
      }
      case 1:
        reader.at += 8
        break
      case 5:
        reader.at += 4
        break
      default:
        throw new BadMessage('a field of no known type')
    }
  }
}

class VarintReader {
  at = 0
  readonly #data: Buffer

  constructor(data: Buffer) {
    this.#data = data
  }

  next(): number {
    let value = 0
    let scale = 1
    for (let place = 0; place < 10; place += 1) {
      const byte = this.#data[this.at]
      if (byte === undefined) throw new BadMessage('a number that was cut off')
      this.at += 1
      value += (byte % 0x80) * scale
      scale *= 0x80
      // Ten bytes are a negative number: how far below zero never matters here.
      if (byte < 0x80) return place === 9 ? -1 : value
    }
    throw new BadMessage('a number that is too long')
  }
}
