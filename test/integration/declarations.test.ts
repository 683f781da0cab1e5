import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Block } from '../docs/blocks.ts'
import { examplesOf, importsOf, inHand, publishedDeclarations } from '../docs/examples.ts'
import { compile } from '../docs/program.ts'

const files = publishedDeclarations()
const texts = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]))
const { dependencies = {} } = JSON.parse(readFileSync('package.json', 'utf8')) as { dependencies?: object }

/** Lines of the declarations that match, each with its file. */
function linesLike(pattern: RegExp): string[] {
  return [...texts].flatMap(([file, text]) =>
    text.split('\n').flatMap((line) => (pattern.test(line) ? [`${file}: ${line.trim()}`] : [])),
  )
}

describe('the published declarations', () => {
  test('are reached from every entry', () => {
    expect(files).toEqual(
      expect.arrayContaining(['dist/types/index.d.ts', 'dist/types/api/locks.d.ts', 'dist/types/guards/index.d.ts']),
    )
  })

  test('have nothing that is internal or private: a double can implement all of it', () => {
    expect(linesLike(/@internal|#private|^\s*(?:private|protected)\b/)).toEqual([])
  })

  test('have no class but the error', () => {
    expect(linesLike(/^(?:export )?(?:default )?(?:declare )?(?:abstract )?class /)).toEqual([
      'dist/types/core/errors.d.ts: export declare class LeaseholdError extends Error {',
    ])
  })

  test('import nothing but each other, Node and dependencies', () => {
    const foreign = [...texts].flatMap(([file, text]) =>
      importsOf(text)
        .filter((from) => !from.startsWith('.') && !from.startsWith('node:') && !(from in dependencies))
        .map((from) => `${file}: ${from}`),
    )
    expect(foreign).toEqual([])
  })

  test('compile by themselves, as declarations of CommonJS', async () => {
    expect(JSON.parse(readFileSync('dist/types/package.json', 'utf8'))).toEqual({ type: 'commonjs' })
    expect(linesLike(/^export default|^export =|\bimport\.meta\b/)).toEqual([])
    const args = ['--lib', 'ES2023,ESNext.Disposable', '--types', 'node', ...files]
    expect(await complaintsOf(args)).toBe('')
  })

  test('need no types of Node but for the server, the guards and etcd', async () => {
    const ofNode = /^dist\/types\/(?:server|guards|drivers\/etcd)\b/
    const others = files.filter((file) => !ofNode.test(file))
    expect(others.length).toBeGreaterThan(60)
    const args = ['--lib', 'ES2023,ESNext.Disposable,DOM', '--types', '', ...others]
    expect(await complaintsOf(args)).toBe('')
  })
})

describe('an example of the published declarations', () => {
  const examples = files.flatMap(examplesOf)
  let complaints: Map<Block, string[]>
  beforeAll(async () => {
    complaints = await compile([inHand, ...examples], path.resolve('.build/declaration-examples'))
  })

  test.each(examples.map((block) => [`${block.file}:${block.line}`, block] as const))('%s compiles', (_, block) => {
    expect(complaints.get(block)).toEqual([])
  })

  test('stands by every function and method that a program begins with', () => {
    const wanted: Readonly<Record<string, readonly string[]>> = {
      'api/connect': ['connect'],
      'edge/index': ['connect'],
      'api/create-locks': ['createLocks'],
      'api/locks':
        'interface Locks,acquire,tryAcquire,run,lock,acquireAll,elect,semaphore,readWrite,once,claim,on'.split(','),
      'api/lease': ['interface Lease', 'handOff'],
      'core/time/duration': ['parseDuration'],
      'drivers/document/driver': ['documentDriver'],
      'drivers/memory/driver': ['memory'],
      'drivers/sqlite/driver': ['sqlite'],
      'drivers/redis/driver': ['redis'],
      'drivers/postgres/driver': ['postgres'],
      'drivers/postgres-advisory/driver': ['postgresAdvisory'],
      'drivers/mongodb/driver': ['mongodb'],
      'drivers/mysql/driver': ['mysql'],
      'drivers/etcd/driver': ['etcd'],
      'drivers/nats/driver': ['nats'],
      'drivers/s3/driver': ['s3'],
      'drivers/dynamodb/driver': ['dynamodb'],
      'drivers/github/driver': ['github'],
      'drivers/quorum/driver': ['quorum'],
      'drivers/http/driver': ['http'],
      'server/serve': ['serve'],
      'server/operators': ['dashboard', 'mountDashboard'],
      'web-locks/web-locks': ['webLocks'],
      'telemetry/prometheus': ['prometheus'],
      'telemetry/opentelemetry': ['openTelemetry'],
      'guards/memory': ['memoryGuard'],
      'guards/range': ['rangeGuard'],
      'guards/sql': ['sqlGuard'],
      'guards/redis': ['redisGuard'],
      'guards/mongo': ['mongoGuard'],
      'guards/file': ['fileGuard'],
      'guards/http-guard': ['httpGuard'],
      'guards/http-fence': ['fencedFetch'],
      'testing/fake-time': ['fakeTime'],
      'testing/faults': ['faulty'],
      'testing/conformance': ['conformance'],
      'testing/client-conformance': ['clientConformance'],
      'testing/primitives-conformance': ['primitivesConformance'],
      'testing/model-test': ['modelTest'],
      'testing/history': ['checkHistory'],
      'testing/simulate': ['simulate'],
    }
    const missing = Object.entries(wanted).flatMap(([file, names]) =>
      names
        .filter((name) => !hasExample(texts.get(`dist/types/${file}.d.ts`) ?? '', name))
        .map((name) => `${file} ${name}`),
    )
    expect(missing).toEqual([])
  })
})

/** Whether the comment right before a declaration, or a member of an interface, has an example. */
function hasExample(text: string, name: string): boolean {
  const declaration = new RegExp(`\\*/\\n\\s*(?:export )?(?:declare )?(?:function )?${name}\\b`).exec(text)
  if (declaration === null) return false
  const comment = text.slice(text.lastIndexOf('/**', declaration.index), declaration.index)
  return comment.includes('@example')
}

async function complaintsOf(args: readonly string[]): Promise<string> {
  const strict = [
    '--strict',
    '--exactOptionalPropertyTypes',
    '--skipLibCheck',
    'false',
    '--noEmit',
    '--pretty',
    'false',
  ]
  const modules = ['--target', 'ES2023', '--module', 'NodeNext', '--ignoreConfig']
  const command = ['node_modules/typescript/bin/tsc', ...strict, ...modules, ...args]
  const { stdout } = await promisify(execFile)(process.execPath, command).catch((error: { stdout: string }) => error)
  return stdout
}
