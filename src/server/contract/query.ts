import {
  faultIn,
  openObject,
  type AnyFields,
  type Described,
  type Optional,
  type Schema,
} from '../../core/wire/schema.ts'
import { invalid } from './http-error.ts'

/** Reads the parameters of a URL. An unknown parameter is refused: a slip of the pen would otherwise show everything. */
export function readQuery<Fields extends AnyFields>(
  fields: Fields,
  query: URLSearchParams,
  /** Forms send empty fields for absent ones. */
  { emptyIsAbsent = false }: { readonly emptyIsAbsent?: boolean } = {},
): Described<Fields> {
  const values: Record<string, unknown> = {}
  for (const [name, value] of query) {
    if (!Object.hasOwn(fields, name)) throw noSuchParameter(name, Object.keys(fields))
    if (Object.hasOwn(values, name)) throw invalid(`${name} is there twice.`)
    if (value === '' && emptyIsAbsent) continue
    values[name] = isWhole(fields[name]) && /^-?\d{1,15}$/.test(value) ? Number(value) : value
  }
  const fault = faultIn(openObject(fields), values)
  if (fault !== undefined) throw invalid(`${fault.slice(1)}.`)
  return values as Described<Fields>
}

function isWhole(field: Schema | Optional | undefined): boolean {
  return field?.kind === 'optional' ? isWhole(field.of) : field?.kind === 'whole'
}

function noSuchParameter(name: string, known: readonly string[]): Error {
  const use = known.length === 0 ? 'There are none here.' : `Use ${known.join(', ')}.`
  return invalid(`There is no parameter ${JSON.stringify(name)}. ${use}`)
}
