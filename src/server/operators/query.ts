import { checkNamespace } from '../../core/scope.ts'
import type { Grant } from '../call.ts'
import { forbidden, invalid } from '../http-error.ts'

/** How a lock may stand. */
export const states = ['held', 'waited-for', 'expired', 'leaving'] as const
export type LockState = (typeof states)[number]

/** Which locks to show. */
export interface LockQuery {
  readonly namespace: string | undefined
  /** What the name begins with. */
  readonly prefix: string | undefined
  /** What is in the name, in capitals or not. */
  readonly name: string | undefined
  readonly state: LockState | undefined
  readonly after: string | undefined
  readonly limit: number
}

const textLengthMax = 512
const limitDefault = 100
export const limitMax = 1000
const known: ReadonlySet<string> = new Set(['namespace', 'prefix', 'name', 'state', 'after', 'limit'])

/** Reads the query of `GET /v1/locks`. */
export function lockQuery(query: URLSearchParams, grant: Grant): LockQuery {
  checkNames(query, known)
  const state = textOf(query, 'state')
  if (state !== undefined && !isState(state)) throw invalid(`state is one of ${states.join(', ')}.`)
  return {
    namespace: namespaceParameter(query, grant),
    prefix: textOf(query, 'prefix'),
    name: textOf(query, 'name'),
    state,
    after: query.get('after') ?? undefined,
    limit: limitOf(query),
  }
}

/** The namespace that is asked about, if one is: the grant must cover it. */
export function namespaceParameter(query: URLSearchParams, grant: Grant): string | undefined {
  const namespace = textOf(query, 'namespace')
  if (namespace === undefined) return undefined
  checkNamespace(namespace)
  checkCovered(grant, namespace)
  return namespace
}

/** Refuses what the grant's namespaces leave out. */
export function checkCovered(grant: Grant, namespace: string): void {
  if (grant.covers(namespace)) return
  throw forbidden(`The token ${JSON.stringify(grant.name)} is not for the namespace ${JSON.stringify(namespace)}.`)
}

/** Refuses a parameter that means nothing: a slip of the pen would otherwise show everything. */
export function checkNames(query: URLSearchParams, names: ReadonlySet<string>): void {
  const unknown = [...query.keys()].find((name) => !names.has(name))
  if (unknown === undefined) return
  const use = names.size === 0 ? 'There are none here.' : `Use ${[...names].join(', ')}.`
  throw invalid(`There is no parameter ${JSON.stringify(unknown)}. ${use}`)
}

function limitOf(query: URLSearchParams): number {
  const text = textOf(query, 'limit')
  if (text === undefined) return limitDefault
  const limit = Number(text)
  if (Number.isInteger(limit) && limit >= 1 && limit <= limitMax) return limit
  throw invalid(`limit is a whole number from 1 to ${limitMax}.`)
}

/** A parameter's text. An empty one is as good as none: forms send them so. */
function textOf(query: URLSearchParams, name: string): string | undefined {
  const text = query.get(name) ?? ''
  if (text.length > textLengthMax) throw invalid(`${name} is longer than ${textLengthMax} characters.`)
  return text === '' ? undefined : text
}

function isState(text: string): text is LockState {
  return (states as readonly string[]).includes(text)
}
