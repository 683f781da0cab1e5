import { requestBounds } from '../../../core/contract/bounds.ts'
import type { Claim, Runner } from '../../../core/contract/driver.ts'
import { objectOf, textOf, wholeNumberOf } from './comment-text.ts'
import { taskWorkerIn, type TaskWorker } from './task-info.ts'

/** What a comment may publish of a runner besides its name. Comments may be public, so the default is nothing. */
export type Published = 'host' | 'pid' | 'owner' | 'metadata'

/** Below the longest text that is read back. */
const nameLengthMax = 256

/** A runner in a claim's comment. @internal */
export interface PublishedRunner {
  readonly worker: string
  readonly node: string
  readonly more?: Readonly<Record<string, unknown>> | undefined
}

/** The part of a claim's runner that its comment publishes. @internal */
export function publishedRunner(
  { runner }: Pick<Claim, 'runner'>,
  publish: ReadonlySet<Published>,
  names: TaskWorker,
): PublishedRunner {
  const showsProcess = publish.has('pid')
  const { host, pid, owner, holds } = runner
  const own = taskWorkerIn(runner.metadata?.['taskWorker'])
  const workerId = own.workerId ?? names.workerId
  const node = own.nodeId ?? names.nodeId ?? runner.client
  const metadata = otherMetadata(runner)
  const more = {
    ...(showsProcess && { incarnation: runner.incarnation, pid }),
    ...(publish.has('host') && { host }),
    // Deadlock detection follows owners by the locks that they hold.
    ...(publish.has('owner') && owner !== undefined && { owner, ...(holds !== undefined && { holds }) }),
    ...(publish.has('metadata') && metadata !== undefined && { metadata }),
  }
  return {
    worker: (workerId ?? (showsProcess ? runner.id : withoutProcess(runner.id))).slice(0, nameLengthMax),
    node: node.slice(0, nameLengthMax),
    ...(Object.keys(more).length > 0 && { more }),
  }
}

/** Reads the runner of a claim's comment. @internal */
export function publishedRunnerIn(lock: Readonly<Record<string, unknown>>, own: unknown): PublishedRunner | undefined {
  const [worker, node] = [textOf(lock['worker_id']), textOf(lock['node_id'])]
  if (worker === undefined || node === undefined) return undefined
  const more = objectOf(own)
  return { worker, node, ...(more !== undefined && { more }) }
}

/** The runner as far as its comment publishes it. @internal */
export function runnerOf({ worker, node, more = {} }: PublishedRunner, task: unknown): Runner {
  const metadata = { ...objectOf(more['metadata']), ...(task !== undefined && { taskInfo: task }) }
  const owner = textOf(more['owner'])
  const holds = textsOf(more['holds'])
  return {
    id: worker,
    incarnation: textOf(more['incarnation']) ?? worker,
    host: textOf(more['host']) ?? '',
    pid: wholeNumberOf(more['pid']) ?? 0,
    client: node,
    ...(owner !== undefined && { owner }),
    ...(holds.length > 0 && { holds }),
    ...(Object.keys(metadata).length > 0 && { metadata }),
  }
}

/** The texts of a list, as many as a claim may name. */
function textsOf(value: unknown): readonly string[] {
  if (!Array.isArray(value)) return []
  return value.slice(0, requestBounds.holdsMax).flatMap((text) => textOf(text) ?? [])
}

/** Removes the pid from the end of a generated runner id. */
function withoutProcess(id: string): string {
  return id.replace(/^(runner_\d+_[^_]+)_\d+$/, '$1')
}

function otherMetadata({ metadata }: Runner): Readonly<Record<string, unknown>> | undefined {
  if (metadata === undefined) return undefined
  const { taskInfo: _task, taskWorker: _worker, ...rest } = metadata
  return Object.keys(rest).length > 0 ? rest : undefined
}
