import type { EvictRule, Mode } from '../../core/contract/driver.ts'

/** What a claim of a script asks for. Claims are numbers, keys are letters, times are in ticks. */
export interface WishedClaim {
  readonly key: number
  readonly mode: Mode
  readonly limit?: number
  readonly range?: readonly [start: number, end: number]
  readonly replaces?: number
  readonly priority: number
  readonly wait: boolean
  readonly evict?: EvictRule
  readonly stale?: number
  readonly ttl: number
  readonly grace: number
  readonly maxHold?: number
  readonly runner: number
}

/** One request of a script. A claim's number stands for its id: a number used again is the same claim, sent again. */
export type Step =
  | { readonly op: 'claim'; readonly claim: number; readonly wish: WishedClaim }
  | { readonly op: 'renew'; readonly claim: number; readonly ttl: number; readonly fenceLift?: number }
  | { readonly op: 'release'; readonly claim: number }
  | { readonly op: 'withdraw'; readonly claim: number }
  | { readonly op: 'evict'; readonly claim: number }

/** One line of a script. */
export type ModelStep =
  | { readonly type: 'send'; readonly driver: 0 | 1; readonly steps: readonly Step[] }
  | { readonly type: 'pass'; readonly ticks: number }
  | { readonly type: 'list'; readonly key: number }
  | { readonly type: 'pages'; readonly limit: number }

/** The script as a person would tell it: what a counterexample prints. */
export function scriptOf(commands: readonly ModelStep[]): string {
  return commands.map((command, index) => `${String(index + 1).padStart(3)}  ${line(command)}`).join('\n')
}

function line(command: ModelStep): string {
  switch (command.type) {
    case 'send':
      return `driver ${command.driver}: ${command.steps.map(stepText).join('; ')}`
    case 'pass':
      return `${command.ticks} ticks pass`
    case 'list':
      return `list key ${keyLetter(command.key)}`
    case 'pages':
      return `list all keys, ${command.limit} a page`
  }
  return ''
}

function stepText(step: Step): string {
  switch (step.op) {
    case 'claim':
      return `claim ${step.claim} on ${wishText(step.wish)}`
    case 'renew': {
      const lift = step.fenceLift === undefined ? '' : ` lifting the fence by ${step.fenceLift}`
      return `renew ${step.claim} for ${step.ttl}${lift}`
    }
    case 'release':
      return `release ${step.claim}`
    case 'withdraw':
      return `withdraw ${step.claim}`
    case 'evict':
      return `evict the fence of ${step.claim}`
  }
  return ''
}

function wishText(wish: WishedClaim): string {
  return [
    keyLetter(wish.key),
    wish.mode,
    wish.limit === undefined ? '' : `limit ${wish.limit}`,
    wish.range === undefined ? '' : `[${wish.range[0]}, ${wish.range[1]})`,
    wish.replaces === undefined ? '' : `in place of ${wish.replaces}`,
    wish.priority === 0 ? '' : `priority ${wish.priority}`,
    wish.wait ? 'waiting' : 'not waiting',
    wish.evict === undefined ? '' : `evicting ${wish.evict}`,
    wish.stale === undefined ? '' : `silent for ${wish.stale}`,
    `ttl ${wish.ttl}`,
    wish.grace === 0 ? '' : `grace ${wish.grace}`,
    wish.maxHold === undefined ? '' : `at most ${wish.maxHold}`,
    `by runner ${wish.runner}`,
  ]
    .filter((part) => part !== '')
    .join(' ')
}

export function keyLetter(key: number): string {
  return String.fromCodePoint(97 + key)
}
