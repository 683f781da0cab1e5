import type { CreateLocksOptions } from '../../../src/api/create-locks.ts'
import type { FakeGithubOptions } from './fake-github.ts'
import { Scene, type Worker } from './scene.ts'

/** Two workers that want one issue. */
export interface Contest {
  readonly scene: Scene
  readonly number: number
  readonly first: Worker
  readonly second: Worker
}

export async function contest(
  options: FakeGithubOptions,
  locks: Omit<CreateLocksOptions, 'driver' | 'environment'> = {},
): Promise<Contest> {
  const scene = new Scene(options)
  const number = scene.fake.openIssue('Fix it', 'a-person')
  const first = await scene.worker('first', {}, locks)
  const second = await scene.worker('second', {}, locks)
  return { scene, number, first, second }
}
