import type { Mutant, Mutants } from './mutant.ts'
import { claim } from './claim.ts'
import { document } from './document.ts'
import { dynamodb } from './dynamodb.ts'
import { etcd } from './etcd.ts'
import { kitAndGuards } from './kit.ts'
import { mongodb } from './mongodb.ts'
import { mysql } from './mysql.ts'
import { nats } from './nats.ts'
import { postgres } from './postgres.ts'
import { quorum } from './quorum.ts'
import { redis } from './redis.ts'
import { rule } from './rule.ts'
import { s3 } from './s3.ts'
import { server } from './server.ts'
import { sqlite } from './sqlite.ts'

/** All mutants, by the room of the source that they are planted in. */
export const rooms: Readonly<Record<string, Mutants>> = {
  rule,
  claim,
  quorum,
  sqlite,
  redis,
  postgres,
  etcd,
  mongodb,
  document,
  mysql,
  nats,
  s3,
  dynamodb,
  server,
  'kit and guards': kitAndGuards,
}

export function mutantNamed(name: string): Mutant {
  for (const mutants of Object.values(rooms)) {
    const mutant = mutants[name]
    if (mutant !== undefined) return mutant
  }
  throw new Error(`There is no mutant "${name}". npm run prove -- mutants --list names them.`)
}

/** The parts of a list by what they have in common, in the order in which that first occurs. */
export function grouped<Part>(
  parts: readonly Part[],
  groupOf: (part: Part) => string,
): ReadonlyMap<string, readonly Part[]> {
  const groups = new Map<string, Part[]>()
  for (const part of parts) {
    const group = groups.get(groupOf(part))
    if (group === undefined) groups.set(groupOf(part), [part])
    else group.push(part)
  }
  return groups
}
