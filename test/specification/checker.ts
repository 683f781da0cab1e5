/** Runs the modules of `spec/` through tla-checker: a checker for a part of TLA+, in WebAssembly. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { check_spec_with_cfg, initSync } from 'tla-checker'

export type ModuleName = 'Rule' | 'Client' | 'Quorum' | 'Trace'

/** A value of TLA+, as far as constants need them. A tuple is an array, a set is a `Set`. */
export type Value =
  | number
  | string
  | boolean
  | readonly Value[]
  | ReadonlySet<Value>
  | { readonly [field: string]: Value }

/** What to check, and how far. */
export interface Check {
  readonly module: ModuleName
  readonly constants: Readonly<Record<string, Value>>
  readonly invariants: readonly string[]
  readonly statesMax?: number
  /** True: a state without a next one is an error. */
  readonly mustGoOn?: boolean
  /** A fault: a part of the module's text, and what stands there instead. */
  readonly plant?: { readonly from: string; readonly to: string }
}

export interface Verdict {
  /** `bound`: nothing was found in `statesMax` states, and there are more. */
  readonly outcome: 'kept' | 'bound' | 'broken' | 'stuck'
  readonly states: number
  /** The invariant that is broken, or the checker's message. */
  readonly message: string | undefined
  /** The states that lead there, the last one last. */
  readonly steps: readonly string[]
}

interface Answer {
  readonly success: boolean
  readonly error_type: string | null
  readonly error_message: string | null
  readonly states_explored: number
  readonly trace: readonly string[] | null
}

let isReady = false

/** Explores all states, breadth first. */
export function check({ module, constants, invariants, statesMax = 5_000_000, mustGoOn, plant }: Check): Verdict {
  if (!isReady)
    initSync({ module: readFileSync(createRequire(import.meta.url).resolve('tla-checker/tla_checker_bg.wasm')) })
  isReady = true
  const prefix = module === 'Trace' ? 'Trace' : ''
  const configuration = [
    `INIT ${prefix}Init`,
    `NEXT ${prefix}Next`,
    ...invariants.map((name) => `INVARIANT ${name}`),
    ...Object.entries(constants).map(([name, value]) => `CONSTANT ${name} = ${written(value)}`),
  ].join('\n')
  const answer = JSON.parse(
    check_spec_with_cfg(
      plantedIn(textOf(module), plant),
      configuration,
      '{}',
      statesMax,
      1_000_000,
      mustGoOn !== true,
      false,
    ),
  ) as Answer
  const outcome = outcomeOf(answer)
  const numbered = /^Invariant (\d+) violated/.exec(answer.error_message ?? '')?.[1]
  const message = numbered === undefined ? (answer.error_message ?? undefined) : invariants[Number(numbered)]
  const steps = (answer.trace ?? [])
    .join('\n')
    .split(/^State \d+\n/m)
    .slice(1)
  return { outcome, states: answer.states_explored, message, steps }
}

function outcomeOf({ success, error_type, error_message }: Answer): Verdict['outcome'] {
  if (success) return 'kept'
  if (error_type === 'MaxStatesExceeded') return 'bound'
  if (error_type === 'Deadlock') return 'stuck'
  if (error_type === 'InvariantViolation') return 'broken'
  throw new Error(`tla-checker: ${error_type}: ${error_message}`)
}

function plantedIn(text: string, plant: Check['plant']): string {
  if (plant === undefined) return text
  if (text.split(plant.from).length !== 2) throw new Error(`${plant.from} does not stand once in the specification.`)
  return text.replace(plant.from, () => plant.to)
}

const declared = /^(CONSTANTS?|VARIABLES)\n((?: {2}.*\n)+)/gm

/**
 * The text of a module. The checker reads one file, and in it the last declaration of each kind only: so the module that it
 * extends is put in its place, and declarations are put together.
 */
function textOf(module: ModuleName): string {
  const text = readFileSync(`spec/${module}.tla`, 'utf8')
  if (!/^EXTENDS Rule$/m.test(text)) return text
  const rule = textOf('Rule').trimEnd().split('\n').slice(1, -1).join('\n')
  const own = Object.fromEntries([...text.matchAll(declared)].map(([, kind = '', names = '']) => [kind, names]))
  const both = rule.replaceAll(declared, (block: string, kind: string) => {
    return own[kind] === undefined ? block : `${kind}\n${namesOf(block)}, ${namesOf(`${kind}\n${own[kind]}`)}\n`
  })
  return text.replaceAll(declared, '').replace(/^EXTENDS Rule$/m, () => both)
}

/** The names that a block declares, without its comments. */
function namesOf(block: string): string {
  const names = block
    .replaceAll(/\\\*.*$/gm, '')
    .split('\n')
    .slice(1)
    .join(' ')
  return `  ${names.replaceAll(/\s+/g, '')}`
}

function written(value: Value): string {
  if (typeof value === 'string') return `"${value}"`
  if (typeof value !== 'object') return String(value).toUpperCase()
  if (Array.isArray(value)) return `<<${value.map(written).join(', ')}>>`
  if (value instanceof Set) return `{${[...(value as ReadonlySet<Value>)].map(written).join(', ')}}`
  const fields = Object.entries(value).map(([field, each]) => `${field} |-> ${written(each as Value)}`)
  return `[${fields.join(', ')}]`
}
