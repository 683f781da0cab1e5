import { LeaseholdError } from './errors.ts'
import { nearest } from './suggestion.ts'

/** Every option there is, by name. The compiler sees to it that none is missing and none is made up. */
export type OptionNames<Options> = Readonly<Record<keyof Options, true>>

/**
 * Refuses options that nobody would read: misspelt, they would do nothing and say nothing. `whose` is the call they are
 * for; `hints` say what to do about names that people bring from elsewhere.
 */
export function checkOptions(
  given: unknown,
  known: object,
  whose: string,
  hints: Readonly<Record<string, string>> = {},
): void {
  if (given === undefined) return
  if (typeof given !== 'object' || given === null) {
    throw new LeaseholdError(
      'INVALID',
      `The options of ${whose} are an object, not ${given === null ? 'null' : `a ${typeof given}`}.`,
    )
  }
  for (const name of Object.keys(given)) if (!Object.hasOwn(known, name)) throw noOption(name, known, whose, hints)
}

/** The given options, and for those that are absent or undefined the defaults. @internal */
export function withDefaults<Options extends object>(defaults: Options, given: Options): Options {
  const named = Object.entries(given).filter(([, value]) => value !== undefined)
  return { ...defaults, ...Object.fromEntries(named) }
}

function noOption(name: string, known: object, whose: string, hints: Readonly<Record<string, string>>): LeaseholdError {
  const names = Object.keys(known)
  const meant = nearest(name, names)
  const hint = Object.hasOwn(hints, name) ? ` ${hints[name]}` : meant === undefined ? '' : ` Did you mean '${meant}'?`
  const all = `The options are ${names.join(', ')}.`
  return new LeaseholdError('INVALID', `There is no option ${JSON.stringify(name)} of ${whose}.${hint} ${all}`)
}
