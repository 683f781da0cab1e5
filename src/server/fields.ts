import { LeaseholdError } from '../core/errors.ts'

/** Least and most of a number, both allowed. */
export interface Bounds {
  readonly least: number
  readonly most: number
}

/** The fields of an object out of somebody else's JSON. Each is checked as it is read; errors say where it stands. */
export class Fields {
  readonly #value: Readonly<Record<string, unknown>>
  readonly #where: string

  /** A field that is not in `known` is refused: it may mean something that this version would leave out. */
  constructor(value: unknown, where: string, known: ReadonlySet<string>) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(where, 'must be an object')
    const unknown = Object.keys(value).find((name) => !known.has(name))
    if (unknown !== undefined) throw wrong(where, `has a field ${JSON.stringify(unknown)}, which means nothing here`)
    this.#value = value as Readonly<Record<string, unknown>>
    this.#where = where
  }

  has(name: string): boolean {
    return this.#value[name] !== undefined
  }

  whereIs(name: string): string {
    return `${this.#where}.${name}`
  }

  raw(name: string): unknown {
    return this.#value[name]
  }

  /** Text of at most so many bytes, not empty unless `least` is 0. */
  text(name: string, bytesMax: number, least = 1): string {
    const value = this.#value[name]
    if (typeof value !== 'string') throw wrong(this.whereIs(name), 'must be text')
    if (value.length < least) throw wrong(this.whereIs(name), 'must not be empty')
    if (value.length > bytesMax || Buffer.byteLength(value) > bytesMax) {
      throw wrong(this.whereIs(name), `must be at most ${bytesMax} bytes long`)
    }
    // Some stores can keep neither, and would refuse all that is sent together with it.
    if (!value.isWellFormed()) throw wrong(this.whereIs(name), 'must be well-formed Unicode')
    if (value.includes('\0')) throw wrong(this.whereIs(name), 'must not have a NUL character')
    return value
  }

  /** A whole number. */
  number(name: string, { least, most }: Bounds): number {
    const value = this.#value[name]
    if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return value as number
    throw wrong(this.whereIs(name), `must be a whole number from ${least} to ${most}`)
  }

  flag(name: string): boolean {
    const value = this.#value[name]
    if (typeof value === 'boolean') return value
    throw wrong(this.whereIs(name), 'must be true or false')
  }

  oneOf<Choice extends string>(name: string, choices: readonly Choice[]): Choice {
    const choice = choices.find((each) => each === this.#value[name])
    if (choice !== undefined) return choice
    throw wrong(this.whereIs(name), `must be one of ${choices.join(', ')}`)
  }
}

/** The error of one field: INVALID, with where it stands. */
export function wrong(where: string, what: string): LeaseholdError {
  return new LeaseholdError('INVALID', `${where} ${what}.`)
}
