/** Protocol Buffers, as far as etcd's messages go: whole numbers, bytes and messages within messages. */

const varintType = 0
const lengthType = 2

// ---- writing

/** The message whose fields these are. Fields that say nothing may be empty. */
export function message(...fields: readonly Uint8Array[]): Buffer {
  return Buffer.concat(fields)
}

const nothing = Buffer.alloc(0)

/** A field with a whole number that is not negative. Zero is what a field that is missing means. */
export function integerField(field: number, value: number): Buffer {
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

// ---- reading

/** What arrived is not what etcd says. */
export class BadMessage extends Error {}

type WireValue = number | Buffer

/** One field of a message: where it stands, how it is read, and what it is if it is missing. */
interface Field<Value> {
  readonly number: number
  readonly missing: Value
  readonly isRepeated?: true
  readonly read: (value: WireValue) => unknown
}

/** The kinds of fields. Messages are given as functions: they may contain themselves. */
export const field = {
  /** Exact below 2^53; larger ones are near it, which is enough to tell two apart. */
  number: (number: number): Field<number> => ({ number, missing: 0, read: numberIn }),
  flag: (number: number): Field<boolean> => ({ number, missing: false, read: (value) => numberIn(value) !== 0 }),
  bytes: (number: number): Field<Buffer> => ({ number, missing: nothing, read: bytesIn }),
  text: (number: number): Field<string> => ({ number, missing: '', read: (value) => bytesIn(value).toString() }),
  /** A missing one is read as an empty one. */
  message: <Message>(number: number, type: MessageType<Message>): Field<Message> => ({
    number,
    missing: type.read(nothing),
    read: (value) => type.read(bytesIn(value)),
  }),
  optional: <Message>(number: number, type: () => MessageType<Message>): Field<Message | undefined> => ({
    number,
    missing: undefined,
    read: (value) => type().read(bytesIn(value)),
  }),
  repeated: <Message>(number: number, type: () => MessageType<Message>): Field<readonly Message[]> => ({
    number,
    missing: [],
    isRepeated: true,
    read: (value) => type().read(bytesIn(value)),
  }),
}

function numberIn(value: WireValue): number {
  if (typeof value === 'number') return value
  throw new BadMessage('bytes where a number belongs')
}

function bytesIn(value: WireValue): Buffer {
  if (typeof value !== 'number') return value
  throw new BadMessage('a number where bytes belong')
}

/** A message as a table of its fields. Fields that the table does not name are skipped. */
export class MessageType<Message> {
  readonly #byNumber: ({ readonly name: string; readonly field: Field<unknown> } | undefined)[] = []
  readonly #empty: Readonly<Record<string, unknown>>
  readonly #lists: readonly string[]

  constructor(fields: { readonly [Name in keyof Message]-?: Field<Message[Name]> }) {
    const entries = Object.entries<Field<unknown>>(fields)
    for (const [name, entry] of entries) this.#byNumber[entry.number] = { name, field: entry }
    this.#empty = Object.fromEntries(entries.map(([name, { missing }]) => [name, missing]))
    this.#lists = entries.filter(([, { isRepeated }]) => isRepeated === true).map(([name]) => name)
  }

  read(data: Buffer): Message {
    const read: Record<string, unknown> = { ...this.#empty }
    for (const name of this.#lists) read[name] = []
    const reader = new WireReader(data)
    while (reader.at < data.length) {
      const tag = reader.varint()
      const value = reader.value(tag % 8)
      const entry = this.#byNumber[Math.floor(tag / 8)]
      if (entry === undefined || value === undefined) continue
      const fieldValue = entry.field.read(value)
      if (entry.field.isRepeated === true) (read[entry.name] as unknown[]).push(fieldValue)
      else read[entry.name] = fieldValue
    }
    return read as Message
  }
}

class WireReader {
  at = 0
  readonly #data: Buffer

  constructor(data: Buffer) {
    this.#data = data
  }

  /** The value of a field of this wire type; undefined: one of a type that etcd's messages do not use. */
  value(type: number): WireValue | undefined {
    switch (type) {
      case varintType:
        return this.varint()
      case lengthType: {
        const length = this.varint()
        const end = this.at + length
        if (length < 0 || end > this.#data.length) throw new BadMessage('a message that was cut off')
        const value = this.#data.subarray(this.at, end)
        this.at = end
        return value
      }
      case 1:
        this.at += 8
        return undefined
      case 5:
        this.at += 4
        return undefined
      default:
        throw new BadMessage('a field of no known type')
    }
  }

  varint(): number {
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
