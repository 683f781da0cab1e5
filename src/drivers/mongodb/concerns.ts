import { LeaseholdError } from '../../core/errors.ts'
import type { MongoDatabase } from './client.ts'

/** How far a read must see. Linearizable waits for a majority; majority may be a moment behind a change of primary. */
export type ReadConcern = 'linearizable' | 'majority'

/** Every write is on the disks of a majority before it is answered: what a failover may roll back is nobody's lock. @internal */
export const writeConcern = { w: 'majority', journal: true } as const

/** Refuses a database set up for less than a majority: its concerns would be overruled, and its owner should know. @internal */
export function refuseWeakConcerns(database: MongoDatabase, readConcern: unknown): void {
  const { w } = database.writeConcern ?? {}
  if (w !== undefined && w !== 'majority') {
    throw weak(
      `write concern w: ${JSON.stringify(w)}`,
      `A failover could undo a grant. Use w: 'majority', or name none`,
    )
  }
  const { level } = database.readConcern ?? {}
  if (level !== undefined && !isStrong(level)) {
    throw weak(
      `read concern '${level}'`,
      `It may show what a failover undoes. Use 'majority' or 'linearizable', or name none`,
    )
  }
  if (readConcern !== undefined && !isStrong(readConcern)) {
    throw weak(`read concern ${JSON.stringify(readConcern)}`, `Use 'majority' or 'linearizable'`)
  }
}

function isStrong(level: unknown): level is ReadConcern {
  return level === 'majority' || level === 'linearizable'
}

function weak(concern: string, advice: string): LeaseholdError {
  return new LeaseholdError('INVALID', `Locks are not safe with ${concern}. ${advice}.`)
}
