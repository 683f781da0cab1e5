import type { Standing } from '../../core/driver.ts'
import type { Notice } from './ledger.ts'

/** A line longer than this is nobody's news. */
const lineLengthMax = 64 * 1024

/** Another thing a bell says: look whether the lock file is still the one you have open. */
export const lookLine = 'look\n'

/** What a bell says: a standing, in one line. */
export interface BellNews {
  readonly key: string
  readonly id: string
  readonly standing: Standing
}

export function writeBellLine({ key, id, standing }: Notice): string {
  return `${JSON.stringify({ key, id, standing })}\n`
}

/** Reads one line. Whoever can open the file can write there, so anything but well-formed news is ignored. */
export function readBellLine(line: string): BellNews | undefined {
  if (line.length > lineLengthMax) return undefined
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  if (!isObject(value)) return undefined
  const { key, id, standing } = value
  if (typeof key !== 'string' || typeof id !== 'string' || !isStanding(standing)) return undefined
  return { key, id, standing }
}

function isStanding(value: unknown): value is Standing {
  if (!isObject(value)) return false
  switch (value['state']) {
    case 'held':
      return isFence(value['fence']) && Number.isFinite(value['ttlMs']) && isText(value['leaving'])
    case 'absent':
      return typeof value['reason'] === 'string' && isText(value['detail'])
    default:
      // Nobody but its owner moves a claim into the queue.
      return false
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isFence(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) > 0
}

function isText(value: unknown): boolean {
  return value === undefined || typeof value === 'string'
}
