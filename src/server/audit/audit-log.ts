import { createHash } from 'node:crypto'
import type { EvictRule, Request } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { networkOf } from '../auth/rate-limits.ts'
import type { LineFile } from './line-file.ts'

/** What the audit says of one thing that was done, or refused. */
export interface AuditRecord {
  /**
   * `change`: carried out. `forced`: the same, by a rule that takes from a live holder, or an eviction. `grant`: a claim that had
   * waited is held. `refused`: by rights, rate or host. `sign-in-failed`: no good credential. `dropped`: lines are missing here.
   */
  readonly event: 'change' | 'forced' | 'grant' | 'refused' | 'sign-in-failed' | 'dropped'
  /** The token's name; absent if nobody signed in. */
  readonly by?: string | undefined
  readonly from?: string | undefined
  /** What was asked for: an operation of the contract. */
  readonly op?: Request['op'] | undefined
  /** The route, of a call that was refused as a whole. */
  readonly route?: string | undefined
  readonly key?: string | undefined
  /** A hash of the claim's id, which is a secret: see {@link claimMark}. */
  readonly claim?: string | undefined
  readonly fence?: number | undefined
  /** How the claim stood afterwards: held, waiting, unknown, or why it is absent. */
  readonly outcome?: string | undefined
  /** The rule by which a claim took, or wanted to take, from a live holder. */
  readonly rule?: EvictRule | undefined
  /** The fence of the holder that it took from, where the store says. */
  readonly tookFence?: number | undefined
  /** Why it was refused, or the reason of an eviction. */
  readonly why?: string | undefined
  /** The floor to which a renewal lifted the fences. */
  readonly fenceFloor?: number | undefined
  /** How many of the same within a second; absent: one. */
  readonly count?: number | undefined
}

/** Refusals of one kind by one caller, of which one line tells. */
interface Repeated {
  readonly record: AuditRecord
  count: number
}

const gatherMs = 1000
const kindsMax = 1000
/** Of one caller: it must not take all kinds, and hide the refusals of others. */
const kindsPerCallerMax = 100

/** Writes what was done as JSON lines. @internal */
export class AuditLog {
  readonly #file: Pick<LineFile, 'write' | 'reopen' | 'close'>
  readonly #environment: Pick<Environment, 'wall' | 'timer'>
  #repeated = new Map<string, Repeated>()
  /** How many kinds of refusals each caller has had since they were last written. */
  readonly #kindsByCaller = new Map<string, number>()

  constructor(file: Pick<LineFile, 'write' | 'reopen' | 'close'>, environment: Pick<Environment, 'wall' | 'timer'>) {
    this.#file = file
    this.#environment = environment
  }

  record(record: AuditRecord): void {
    this.#file.write(auditLine(record, this.#environment.wall()), ownerOf(record))
  }

  /**
   * Records a refusal. The first of a kind is written at once, and all that follow within a second in one line with their number: a
   * caller who is refused must not fill the disk.
   */
  refusal(record: AuditRecord): void {
    const kind = JSON.stringify([record.event, record.by, record.from, record.route, record.op, record.key, record.why])
    const known = this.#repeated.get(kind)
    if (known !== undefined) {
      known.count += 1
      return
    }
    if (this.#repeated.size === 0) this.#environment.timer(gatherMs, () => this.#tellRepeated())
    const caller = ownerOf(record)
    const kinds = this.#kindsByCaller.get(caller) ?? 0
    if (kinds >= kindsPerCallerMax) return this.#others(record, caller)
    if (this.#repeated.size >= kindsMax) return this.#others(record)
    this.#kindsByCaller.set(caller, kinds + 1)
    this.#repeated.set(kind, { record, count: 0 })
    this.record(record)
  }

  /** After the file was moved. Rejects if the path cannot be opened: the old file is written on. */
  reopen(): Promise<void> {
    return this.#file.reopen()
  }

  async close(withinMs: number): Promise<void> {
    this.#tellRepeated()
    await this.#file.close(withinMs)
  }

  /** Refusals of more kinds than are told apart are counted by their event: of one caller, or of all. */
  #others({ event, by, from }: AuditRecord, caller?: string): void {
    const kind = caller === undefined ? event : `${event} ${caller}`
    const known = this.#repeated.get(kind)
    if (known !== undefined) known.count += 1
    else if (caller === undefined) this.#repeated.set(kind, { record: { event, why: 'many callers' }, count: 1 })
    else this.#repeated.set(kind, { record: { event, by, from, why: 'many reasons' }, count: 1 })
  }

  #tellRepeated(): void {
    const repeated = this.#repeated
    this.#repeated = new Map()
    this.#kindsByCaller.clear()
    for (const { record, count } of repeated.values()) if (count > 0) this.record({ ...record, count })
  }
}

/** Whose doing a record tells of: a token or, without one, an address, of which a network of IPv6 has any number. */
function ownerOf({ by, from }: AuditRecord): string {
  return by === undefined ? `address ${networkOf(from ?? '')}` : `token ${by}`
}

/** What controls a terminal, or breaks a line. */
const steering = /[\p{C}\p{Zl}\p{Zp}]/gu

/** A record as a line of JSON, without control characters. @internal */
export function auditLine(record: AuditRecord, wallMs: number): string {
  return JSON.stringify({ at: new Date(wallMs).toISOString(), ...record }).replace(steering, (character) => {
    const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index))
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
  })
}

/** Tells claims apart without giving away their ids, which are capabilities: 48 bits of a hash. @internal */
export function claimMark(id: string): string {
  return createHash('sha256').update(`leasehold claim ${id}`).digest('hex').slice(0, 12)
}
