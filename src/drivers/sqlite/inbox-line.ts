import type { ClaimStatus } from '../../core/driver.ts'
import type { PgNotification } from './transaction-writer.ts'

/** A line longer than this is nobody's news. */
const lineLengthMax = 64 * 1024

/** Another thing an inbox says: look whether the lock file is still the one you have open. */
export const lookLine = 'look\n'

/** What an inbox says: a status, in one line. */
export interface InboxNotification {
  readonly key: string
  readonly id: string
  readonly status: ClaimStatus
}

export function writeInboxLine({ key, id, status }: PgNotification): string {
  return `${JSON.stringify({ key, id, status })}\n`
}

/** Reads one line. Whoever can open the file can write there, so anything but well-formed news is ignored. */
export function readInboxLine(line: string): InboxNotification | undefined {
  if (line.length > lineLengthMax) return undefined
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  if (!isObject(value)) return undefined
  const { key, id, status } = value
  if (typeof key !== 'string' || typeof id !== 'string' || !isClaimStatus(status)) return undefined
  return { key, id, status }
}

function isClaimStatus(value: unknown): value is ClaimStatus {
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
