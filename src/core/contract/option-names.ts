import { LeaseholdError } from '../errors.ts'

/** Every option, by name. The compiler checks that none is missing and none is made up. */
export type OptionNames<Options> = Readonly<Record<keyof Options, true>>

/**
 * Refuses unknown options: misspelt, they would silently do nothing. `whose` is the call they are for; `hints` say what to
 * do about names that people know from other libraries.
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

/** The known word that was probably meant, if one is near enough. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const mistakesMax = Math.max(1, Math.floor(word.length / 3))
  const near = known
    .map((candidate) => ({ candidate, mistakes: distance(word, candidate) }))
    .filter(({ mistakes }) => mistakes <= mistakesMax)
    .toSorted((first, second) => first.mistakes - second.mistakes)
  return near[0]?.candidate ?? known.find((candidate) => word.length > 1 && candidate.startsWith(word))
}

/** How many letters must be added, dropped, changed or swapped with their neighbour. */
function distance(from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_, column) => column)]
  const mistakesAt = (row: number, column: number): number => rows[row]?.[column] ?? Infinity
  for (let row = 1; row <= from.length; row += 1) {
    rows.push([row])
    for (let column = 1; column <= to.length; column += 1) {
      const isSame = from[row - 1] === to[column - 1]
      const isSwapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      const mistakes = Math.min(
        mistakesAt(row - 1, column) + 1,
        mistakesAt(row, column - 1) + 1,
        mistakesAt(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwapped ? mistakesAt(row - 2, column - 2) + 1 : Infinity,
      )
      rows[row]?.push(mistakes)
    }
  }
  return mistakesAt(from.length, to.length)
}
