import { splitStoreKey } from '../../core/contract/scope.ts'
import { byteRange, inode, issue, named, path, type Scope } from '../../index.ts'
import type { ParsedArguments, OptionTable } from '../arguments.ts'
import { printable } from '../../core/printable.ts'
import { quoted } from './terminal-text.ts'
import { UsageError } from '../exit-codes.ts'

const kinds = ['name', 'path', 'inode', 'issue', 'range'] as const

type Kind = (typeof kinds)[number]

/** A lock as the command line names it: NAME and `--kind`. */
export interface LockName {
  readonly kind: Kind
  readonly name: string
}

/** A lock name with the scope it stands for. */
export interface Target extends LockName {
  readonly scope: Scope
  /** For sentences: `"nightly"`, `inode 7`. */
  readonly label: string
}

/** The option of commands that are about one lock. */
export const kindOption = { kind: { type: 'string', choices: kinds } } satisfies OptionTable

/** The help of `--kind`. */
export const kindHelp =
  '  --kind KIND         what NAME is: path, inode, issue or range (INODE:START-END, END not included); default: a name'

/** The target that `name` and the given `--kind` mean. */
export function readTarget(given: ParsedArguments, name: string): Target {
  return targetOf(readKind(given), name)
}

/** The target of that kind. A path is normalized. */
export function targetOf(kind: Kind, name: string): Target {
  const scope = scopeOf(kind, name)
  const called = lockNameOf(scope)
  return { ...called, scope, label: labelOf(called) }
}

/** The name of a key, which may begin with its namespace, or of one range of it. */
export function lockNameOf({ key, range }: Pick<Scope, 'key' | 'range'>): LockName {
  // A scope's own key begins with its kind, and no namespace has a colon.
  const scopeKey = /^\w+:/.test(key) ? key : (splitStoreKey(key)?.scopeKey ?? key)
  const split = scopeKey.indexOf(':')
  const kind = scopeKey.slice(0, split)
  const name = scopeKey.slice(split + 1)
  if (range !== undefined) return { kind: 'range', name: `${name}:${range.start}-${range.end}` }
  return { kind: kind === 'named' ? 'name' : (kind as Kind), name }
}

/** A lock at the start of a line: a plain name as it is, anything ambiguous quoted or with its kind. */
export function shownName(called: LockName): string {
  return called.kind === 'name' && !/\s/.test(called.name) ? printable(called.name) : labelOf(called)
}

function labelOf({ kind, name }: LockName): string {
  return kind === 'name' ? quoted(name) : printable(`${kind} ${name}`)
}

function readKind(given: ParsedArguments): Kind {
  const text = given.texts.get('kind') ?? 'name'
  const kind = kinds.find((each) => each === text)
  if (kind !== undefined) return kind
  throw new UsageError(`--kind is ${quoted(text)}, not one of ${kinds.join(', ')}.`)
}

function scopeOf(kind: Kind, name: string): Scope {
  switch (kind) {
    case 'name':
      return named(name)
    case 'path':
      return path(name)
    case 'inode':
      return inode(numberIn(name, 'an inode: 7'))
    case 'issue':
      return issue(numberIn(name, 'an issue: 42'))
    case 'range': {
      const [, file = '', start = '', end = ''] = /^(\d+):(\d+)-(\d+)$/.exec(name) ?? []
      if (file === '') throw new UsageError(`${quoted(name)} is no range. Write INODE:START-END: 7:0-4096`)
      return byteRange(Number(file), Number(start), Number(end))
    }
  }
}

function numberIn(name: string, example: string): number {
  if (/^\d+$/.test(name)) return Number(name)
  throw new UsageError(`${quoted(name)} is not the number of ${example}`)
}
