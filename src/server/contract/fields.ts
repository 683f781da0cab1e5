import { LeaseholdError } from '../../core/errors.ts'
import { isWithin, wholeNumber, type Bounds, textFault } from '../../core/contract/bounds.ts'

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
    const fault = textFault(value, bytesMax, least)
    if (fault === undefined) return value as string
    throw wrong(this.whereIs(name), fault)
  }

  /** A whole number. */
  number(name: string, bounds: Bounds): number {
    const value = this.#value[name]
    if (isWithin(value, bounds)) return value
    throw wrong(this.whereIs(name), wholeNumber(bounds))
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
