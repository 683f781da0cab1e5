import path from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take longest, the longest first: a run should not end with one of them alone. */
export const longest = [
  'mongodb',
  'quorum',
  'etcd-faults',
  'composition-stores',
  'guards',
  'consumers',
  'etcd-leases',
  'postgres',
  'postgres-advisory',
  'cli',
  'etcd-cluster',
  'postgres-connections',
  'mongodb-composition',
  'postgres-faults',
  'cli-descendants',
  'redis-cluster',
  'docs',
  'dashboard-mess',
  'dashboard-page',
  's3',
  'dynamodb',
  'github-repository',
  'cli-screen',
  'redis-contract',
  'redis-waiters',
  'server-clocks',
  'lifetimes',
  'redis-lost-replies',
  'http-faults',
  'github-exploration',
  'client-exploration',
  'bench-run',
  // Of those that need the machine.
  'chaos-processes',
  'primitives-processes',
  'server-pair-processes',
  'github-processes',
  'client-processes',
]

/**
 * The same order every time: begins with the longest files, and lets the files of projects that run together take turns: unit tests compute,
 * integration tests mostly wait.
 */
export class TestOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = files.toSorted((a, b) => rankOf(a) - rankOf(b) || (a.moduleId < b.moduleId ? -1 : 1))
    const ofProject = new Map<string, number>()
    for (const { project } of sorted) ofProject.set(project.name, (ofProject.get(project.name) ?? 0) + 1)
    const seen = new Map<string, number>()
    const turns = sorted.map((file) => {
      const { name, config } = file.project
      const index = seen.get(name) ?? 0
      seen.set(name, index + 1)
      return { file, group: config.sequence.groupOrder, share: (index + 0.5) / (ofProject.get(name) ?? 1) }
    })
    return turns.toSorted((a, b) => a.group - b.group || a.share - b.share).map(({ file }) => file)
  }
}

function rankOf({ moduleId }: TestSpecification): number {
  const index = longest.indexOf(path.basename(moduleId, '.test.ts'))
  return index === -1 ? longest.length : index
}
