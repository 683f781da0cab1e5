import { isWithin, readMetadataFault, requestBounds, textFault, wholeNumber, type Bounds } from '../contract/bounds.ts'
import { LeaseholdError } from '../errors.ts'

/** What a JSON value must be. Plain data: `faultIn` checks by it, and the server writes it as JSON Schema. */
export type Schema<Value = unknown> = Shape & {
  /** A sentence for the OpenAPI document. */
  readonly description?: string | undefined
  /** Never set: it carries the type. */
  readonly value?: Value | undefined
}

/** A field that may be absent. */
export interface Optional<Value = unknown> {
  readonly kind: 'optional'
  readonly of: Schema<Value>
}

type Shape =
  | { readonly kind: 'text'; readonly least: number; readonly most: number; readonly format?: string }
  | { readonly kind: 'whole' | 'number'; readonly bounds: Bounds }
  | { readonly kind: 'flag' | 'metadata' }
  | { readonly kind: 'choice'; readonly among: readonly string[] }
  | { readonly kind: 'list'; readonly of: Schema; readonly most: number }
  | { readonly kind: 'object'; readonly fields: AnyFields; readonly isOpen: boolean }
  | { readonly kind: 'variants'; readonly tag: string; readonly forms: Readonly<Record<string, AnyFields>> }
  | { readonly kind: 'nullable'; readonly of: Schema }
  | { readonly kind: 'refined'; readonly of: Schema; readonly fault: (value: never) => string | undefined }

/** Fields by name. */
export type AnyFields = Readonly<Record<string, Schema | Optional>>
type Given = Readonly<Record<string, unknown>>

/** The fields of a type: each of them must be described, optional ones as optional, and none beside. */
export type Fields<Value> = {
  readonly [Name in keyof Value]-?: undefined extends Value[Name]
    ? Optional<Exclude<Value[Name], undefined>>
    : Schema<Value[Name]>
}

/** The type that a schema, or the fields of one, describes. */
export type Described<From> =
  From extends Schema<infer Value>
    ? Value
    : {
        readonly [Name in keyof From as From[Name] extends Schema ? Name : never]: Described<From[Name]>
      } & {
        readonly [Name in keyof From as From[Name] extends Optional ? Name : never]?:
          | (From[Name] extends Optional<infer Value> ? Value : never)
          | undefined
      }

/** Text of so many bytes. */
export const string = (most: number, least = 1): Schema<string> => ({ kind: 'text', least, most })
export const anyText: Schema<string> = string(Infinity, 0)
export const integer = (bounds: Bounds = requestBounds.natural): Schema<number> => ({ kind: 'whole', bounds })
export const number = (least = -Infinity, most = Infinity): Schema<number> => ({
  kind: 'number',
  bounds: { least, most },
})
export const amount: Schema<number> = number(0)
export const flag: Schema<boolean> = { kind: 'flag' }
/** What runners and callers say of themselves. */
export const metadata: Schema<Given> = { kind: 'metadata' }
export const choice = <const Choice extends string>(...among: readonly Choice[]): Schema<Choice> => ({
  kind: 'choice',
  among,
})
export const list = <Item>(of: Schema<Item>, most = Infinity): Schema<readonly Item[]> => ({ kind: 'list', of, most })
export const nullable = <Value>(of: Schema<Value>): Schema<Value | null> => ({ kind: 'nullable', of })
export const optional = <Value>(of: Schema<Value>): Optional<Value> => ({ kind: 'optional', of })
/** A further condition, checked after all others. */
export const refined = <Value>(of: Schema<Value>, fault: (value: Value) => string | undefined): Schema<Value> => ({
  kind: 'refined',
  of,
  fault,
})

/** An object of a type that is declared elsewhere. `isOpen`: fields may be added to it one day. */
export const object = <Value>(fields: Fields<Value>, isOpen = false): Schema<Value> => ({
  kind: 'object',
  fields,
  isOpen,
})

/** An object whose type is derived from its fields. Fields may be added to it one day. */
export const openObject = <From extends AnyFields>(fields: From): Schema<Described<From>> => ({
  kind: 'object',
  fields,
  isOpen: true,
})

/** Objects of several forms, told apart by the field `tag`. */
export const variants = <Tag extends string, Value extends Readonly<Record<Tag, string>>>(
  tag: Tag,
  forms: { readonly [Name in Value[Tag]]: Fields<Omit<Extract<Value, Readonly<Record<Tag, Name>>>, Tag>> },
): Schema<Value> => ({ kind: 'variants', tag, forms })

/** The value of a reply; undefined if it is not what the schema describes. Fields that a newer server adds are passed over. */
export function understood<Value>(schema: Schema<Value>, value: unknown): Value | undefined {
  return fits(schema, value) ? (value as Value) : undefined
}

/** Whether a value is of the kind described. The lengths of texts and lists are not checked: the store did that. */
function fits(schema: Schema | Optional, value: unknown): boolean {
  switch (schema.kind) {
    case 'text':
      return typeof value === 'string'
    case 'flag':
      return typeof value === 'boolean'
    case 'whole':
      return isWithin(value, schema.bounds)
    case 'number':
      // JSON can say 1e999.
      return (
        Number.isFinite(value) && (value as number) >= schema.bounds.least && (value as number) <= schema.bounds.most
      )
    case 'choice':
      return schema.among.includes(value as string)
    case 'list':
      return Array.isArray(value) && value.every((item) => fits(schema.of, item))
    case 'metadata':
      return isRecord(value)
    case 'object':
      return haveFields(schema.fields, value)
    case 'variants':
      return haveFields(formOf(schema, value), value)
    case 'nullable':
      return value === null || fits(schema.of, value)
    case 'optional':
      return value === undefined || fits(schema.of, value)
    case 'refined':
      return fits(schema.of, value)
  }
}

function haveFields(fields: AnyFields | undefined, value: unknown): boolean {
  if (fields === undefined || !isRecord(value)) return false
  for (const [name, field] of entriesOf(fields)) if (!fits(field, value[name])) return false
  return true
}

type FieldEntries = readonly (readonly [name: string, field: Schema | Optional])[]

/** The entries of fields are listed once: a call checks a thousand requests by the same fields. */
const fieldEntries = new WeakMap<AnyFields, FieldEntries>()

function entriesOf(fields: AnyFields): FieldEntries {
  let entries = fieldEntries.get(fields)
  if (entries === undefined) fieldEntries.set(fields, (entries = Object.entries(fields)))
  return entries
}

/** The value of a body, checked. Throws INVALID, which says where the fault is: in `where`, or in a field of the body itself. */
export function checked<Value>(schema: Schema<Value>, value: unknown, where?: string): Value {
  const fault = faultIn(schema, value)
  if (fault === undefined) return value as Value
  const isInField = where === undefined && fault.startsWith('.')
  throw new LeaseholdError('INVALID', `${isInField ? fault.slice(1) : `${where ?? 'The body'}${fault}`}.`)
}

/**
 * What is wrong with a value, after the path to it: `.claim.ttlMs must be …`. Undefined: nothing is. Stricter than `understood`:
 * texts and lists have their bounds, and a field that is not described is refused, as it may mean something.
 */
export function faultIn(schema: Schema | Optional, value: unknown): string | undefined {
  switch (schema.kind) {
    case 'text':
      return said(textFault(value, schema.most, schema.least))
    case 'metadata':
      return said(readMetadataFault(value))
    case 'list':
      return listFault(schema.of, schema.most, value)
    case 'object':
      return objectFault(schema.fields, value)
    case 'variants': {
      const { tag, forms } = schema
      const form = formOf(schema, value)
      return form ? objectFault(form, value, tag) : `.${tag} ${oneOf(Object.keys(forms))}`
    }
    case 'nullable':
      return value === null ? undefined : faultIn(schema.of, value)
    case 'optional':
      return value === undefined ? undefined : faultIn(schema.of, value)
    case 'refined':
      return faultIn(schema.of, value) ?? said(schema.fault(value as never))
    case 'flag':
      return fits(schema, value) ? undefined : ' must be true or false'
    case 'choice':
      return fits(schema, value) ? undefined : ` ${oneOf(schema.among)}`
    case 'whole':
      return fits(schema, value) ? undefined : ` ${wholeNumber(schema.bounds)}`
    case 'number':
      return fits(schema, value) ? undefined : ` must be a number from ${schema.bounds.least} to ${schema.bounds.most}`
  }
}

function listFault(of: Schema, most: number, value: unknown): string | undefined {
  if (!Array.isArray(value)) return ' must be a list'
  if (value.length > most) return ` has ${value.length}; ${most} are allowed a call`
  let index = 0
  for (const item of value as readonly unknown[]) {
    const fault = faultIn(of, item)
    if (fault !== undefined) return `[${index}]${fault}`
    index += 1
  }
  return undefined
}

function objectFault(fields: AnyFields, value: unknown, tag?: string): string | undefined {
  if (!isRecord(value)) return ' must be an object'
  for (const name of Object.keys(value)) {
    if (name === tag || Object.hasOwn(fields, name)) continue
    return ` has a field ${JSON.stringify(name)}, which means nothing here`
  }
  for (const [name, field] of entriesOf(fields)) {
    const given = value[name]
    if (given === undefined && field.kind === 'optional') continue
    const fault = faultIn(field, given)
    if (fault !== undefined) return `.${name}${fault}`
  }
  return undefined
}

/** The fields of the form that a value says it has; undefined if there is no such form. */
function formOf({ tag, forms }: Extract<Shape, { kind: 'variants' }>, value: unknown): AnyFields | undefined {
  const name = (value as Given | null | undefined)?.[tag]
  return typeof name === 'string' && Object.hasOwn(forms, name) ? forms[name] : undefined
}

/** A fault as it stands behind a path. */
function said(fault: string | undefined): string | undefined {
  return fault && ` ${fault}`
}

function oneOf(names: readonly string[]): string {
  return `must be one of ${names.join(', ')}`
}

function isRecord(value: unknown): value is Given {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
