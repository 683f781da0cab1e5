import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

/** Outside of this repository: nothing is found in its node_modules. */
let folder = ''
beforeAll(() => {
  folder = makeFolder('packages')
  cpSync('dist', path.join(folder, 'dist'), { recursive: true })
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }')
})
afterAll(() => removeFolder(folder))

/** What `connect` says to a URL when these packages, each with its code, are installed and no others. */
async function refusal(
  url: string,
  packages: Readonly<Record<string, string>> = {},
  { within = 'node_modules', type = 'module' } = {},
): Promise<string> {
  const installed = path.join(folder, within)
  rmSync(installed, { recursive: true, force: true })
  for (const [spec, code] of Object.entries(packages)) {
    const [name = '', version] = spec.split('@')
    mkdirSync(path.join(installed, name), { recursive: true })
    writeFileSync(path.join(installed, name, 'package.json'), JSON.stringify({ name, version, type }))
    writeFileSync(path.join(installed, name, 'index.js'), code)
  }
  const program = `
    import { connect } from './dist/node/index.mjs'
    await connect(${JSON.stringify(url)}).catch(({ message, reason }) => console.log(message, '|', reason))`
  writeFileSync(path.join(folder, 'program.js'), program)
  const env = { ...process.env, GITHUB_TOKEN: 'secret', NODE_PATH: installed }
  const { stdout } = await promisify(execFile)(process.execPath, ['program.js'], { cwd: folder, env })
  return stdout.trim()
}

describe('a store whose client is not installed says which versions fit, and how to install one', () => {
  test('mongodb', async () => {
    expect(await refusal('mongodb://127.0.0.1:1')).toBe(
      'UNAVAILABLE: The mongodb driver needs mongodb ^6.11 or ^7. Run: npm install mongodb@7 | configuration',
    )
  })

  test('mysql and mariadb', async () => {
    expect(await refusal('mysql://127.0.0.1:1/db')).toBe(
      'UNAVAILABLE: The mysql driver needs mysql2 ^3, or mariadb ^3. Run: npm install mysql2@3 | configuration',
    )
    expect(await refusal('mariadb://127.0.0.1:1/db')).toContain(
      'needs mariadb ^3, or mysql2 ^3. Run: npm install mariadb@3',
    )
    expect(await refusal('mysql://127.0.0.1:1/db', { 'mysql2@2.3.3': 'throw new Error("loaded")' })).toContain(
      'mysql2 2.3.3 is installed',
    )
  })

  test('a Redis Cluster', async () => {
    expect(await refusal('redis-cluster://127.0.0.1:1')).toBe(
      'UNAVAILABLE: A Redis Cluster needs ioredis ^5 or ^6, or redis ^4.6, ^5 or ^6. Run: npm install ioredis@6 | configuration',
    )
  })

  test.each(['postgres://127.0.0.1:1', 'postgres-advisory://127.0.0.1:1'])('%s', async (url) => {
    expect(await refusal(url)).toContain('needs pg ^8.11, or postgres ^3.4. Run: npm install pg@8 | configuration')
  })

  test('github', async () => {
    expect(await refusal('github:acme/tasks')).toContain(
      'Run: npm install @octokit/core@7 @octokit/plugin-retry@8 @octokit/plugin-throttling@11 | configuration',
    )
  })

  test.skipIf(process.getBuiltinModule?.('node:sqlite') !== undefined)('sqlite, below Node 22.13', async () => {
    expect(await refusal('sqlite:locks.sqlite')).toContain(
      'Run: npm install @photostructure/sqlite@1 (or use Node 22.13 or newer) | configuration',
    )
  })
})

test('a server that takes JWTs says which version of jose fits, and how to install it', async () => {
  const program = `
    import { serve } from './dist/node/server.mjs'
    const jwt = { issuer: 'i', audience: 'a', jwks: 'https://i.example', grants: [{ namespaces: '*', rights: ['read'] }] }
    await serve({ store: 'memory:', port: 0, jwt }).catch(({ message, reason }) => console.log(message, '|', reason))`
  rmSync(path.join(folder, 'node_modules'), { recursive: true, force: true })
  writeFileSync(path.join(folder, 'program.js'), program)
  const { stdout } = await promisify(execFile)(process.execPath, ['program.js'], { cwd: folder })
  expect(stdout.trim()).toBe('UNAVAILABLE: jwt needs jose ^6. Run: npm install jose@6 | configuration')
})

describe('a client that does not fit', () => {
  const neverLoaded = 'throw new Error("loaded")'

  test('is named with its version, and its code does not run', async () => {
    expect(await refusal('mongodb://127.0.0.1:1', { 'mongodb@5.9.2': neverLoaded })).toContain(
      'needs mongodb ^6.11 or ^7, and mongodb 5.9.2 is installed. Run: npm install mongodb@7',
    )
    expect(await refusal('mongodb://127.0.0.1:1', { 'mongodb@6.10.0': neverLoaded })).toContain('mongodb 6.10.0 is')
    const packages = { 'ioredis@4.31.0': neverLoaded, 'redis@3.1.2': neverLoaded }
    expect(await refusal('redis-cluster://127.0.0.1:1', packages)).toContain(
      'and ioredis 4.31.0 and redis 3.1.2 are installed. Run: npm install ioredis@6',
    )
  })

  test('is passed over for another that does', async () => {
    const packages = { 'ioredis@4.31.0': neverLoaded, 'redis@5.12.1': 'throw new Error("redis is loaded")' }
    expect(await refusal('redis-cluster://127.0.0.1:1', packages)).toContain('redis is loaded')
  })

  test('is told from one that fits and lacks a package of its own', async () => {
    const said = await refusal('postgres://127.0.0.1:1', { 'pg@8.23.1': 'import "pg-pool"' })
    expect(said).toContain("UNAVAILABLE: pg is installed, and fails when it is loaded: Cannot find package 'pg-pool'")
  })
})

test('a client that fails when it is loaded is UNAVAILABLE, and not missing', async () => {
  const said = await refusal('mongodb://127.0.0.1:1', { 'mongodb@7.7.0': 'throw new Error("built for another Node")' })
  expect(said).toBe(
    'UNAVAILABLE: mongodb is installed, and fails when it is loaded: built for another Node | configuration',
  )
})

test('a client is found where only require looks: in the folders of NODE_PATH', async () => {
  const code = 'exports.Pool = class { constructor() { throw new Error("the pool of a layer") } }'
  const said = await refusal('postgres://127.0.0.1:1', { 'pg@8.23.1': code }, { within: 'layer', type: 'commonjs' })
  expect(said).toContain('the pool of a layer')
})

test('the root loads no driver, and no package', async () => {
  const program = `
    require(${JSON.stringify(path.resolve('dist/node/index.js'))})
    console.log(JSON.stringify(Object.keys(require.cache)))`
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', program])
  const loaded = (JSON.parse(stdout) as string[]).map((file) => path.relative(path.resolve('dist/node'), file))
  expect(loaded).toContain('create-locks.js')
  const { exports } = JSON.parse(readFileSync('package.json', 'utf8')) as { exports: Readonly<Record<string, unknown>> }
  const entries = Object.keys(exports).flatMap((name) => (name === '.' ? [] : [`${path.basename(name)}.js`]))
  expect(entries).toContain('redis.js')
  expect(loaded.filter((file) => file.startsWith('..') || entries.includes(file))).toEqual([])
})
