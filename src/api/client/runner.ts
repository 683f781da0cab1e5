import type { Runner } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { builtin, permitted, runtimeProcess } from '../../core/machine/runtime.ts'
import { utf8Length, metadataBytesMax, metadataDepthMax } from '../../core/contract/bounds.ts'

/** A new runner id: `runner_{time}_{8 hex}_{pid}`. */
export function newRunnerId(environment: Environment, pid: number): string {
  const hex = environment.id().replaceAll('-', '').slice(0, 8)
  return `runner_${Math.floor(environment.wall())}_${hex}_${pid}`
}

/** The runner of this process. `id` is the one persisted under a name, if any; the incarnation is always new. */
export function newRunner(
  environment: Environment,
  id: string | undefined,
  metadata: Readonly<Record<string, unknown>> | undefined,
): Runner {
  // A page in a browser has neither host nor process.
  const host = permitted(() => builtin('node:os')?.hostname()) || 'unknown'
  const { pid = 0, platform = 'unknown' } = runtimeProcess ?? {}
  const incarnation = newRunnerId(environment, pid)
  return {
    id: id ?? incarnation,
    incarnation,
    host,
    pid,
    client: environment.id(),
    metadata: {
      pid,
      hostname: host,
      platform,
      timestamp: new Date(environment.wall()).toISOString(),
      ...checkMetadata(metadata),
    },
  }
}

/** The runner of one claim: with the owner of that claim, the keys that the owner holds, and the claim's metadata. */
export function claimant(
  runner: Runner,
  owner: string | undefined,
  metadata: Readonly<Record<string, unknown>> | undefined,
  holds: readonly string[] = [],
): Runner {
  if (owner === undefined && metadata === undefined) return runner
  return {
    ...runner,
    ...(owner !== undefined && { owner }),
    ...(holds.length > 0 && { holds }),
    ...(metadata !== undefined && { metadata: { ...runner.metadata, ...checkMetadata(metadata) } }),
  }
}

function checkMetadata(metadata: Readonly<Record<string, unknown>> | undefined): Readonly<Record<string, unknown>> {
  if (metadata === undefined) return {}
  let text: string | undefined
  try {
    text = JSON.stringify(metadata)
  } catch (cause) {
    throw new LeaseholdError('INVALID', 'metadata cannot be written as JSON.', { cause })
  }
  if (typeof metadata !== 'object' || Array.isArray(metadata) || text === undefined) {
    throw new LeaseholdError('INVALID', 'metadata must be an object of JSON values.')
  }
  if (utf8Length(text) > metadataBytesMax) {
    throw new LeaseholdError(
      'INVALID',
      `metadata is ${utf8Length(text)} bytes of JSON; ${metadataBytesMax} are allowed.`,
    )
  }
  // A copy, so that later changes by the caller do not change the claim.
  const copy = JSON.parse(text) as Record<string, unknown>
  if (!isDeeper(copy, metadataDepthMax)) return copy
  throw new LeaseholdError('INVALID', `metadata is nested more than ${metadataDepthMax} deep.`)
}

/** Whether objects and lists are nested more than `levels` deep. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1))
}
