// Projects that require: Jest, ts-jest, TypeScript that emits CommonJS; and processes that require and import.
import assert from 'node:assert/strict'

/** Takes a lock, and is told of another that is taken. */
const jestTest = `
const { connect, createLocks, LeaseholdError } = require('leasehold')
const { memory } = require('leasehold/memory')
const { faulty, fakeTime } = require('leasehold/testing')

test('holds a lock', async () => {
  const locks = await createLocks({ driver: memory() })
  await locks.run('job', async (lease) => {
    expect(lease.fence).toBeGreaterThan(0)
    expect(await locks.tryAcquire('job')).toBeNull()
  })
  await locks.close()
  expect(typeof faulty).toBe('function')
  expect(typeof fakeTime).toBe('function')
})

test('finds a client, or says what to install', async () => {
  const error = await connect('mongodb://127.0.0.1:1').catch((thrown) => thrown)
  expect(error).toBeInstanceOf(LeaseholdError)
  expect(error).toBeInstanceOf(Error)
  expect(error.message).toContain('Run: npm install mongodb@7')
  // Nobody listens there: the client was found, and tried.
  const refused = await connect('redis-cluster://127.0.0.1:1').catch((thrown) => thrown)
  expect(refused.code).toBe('UNAVAILABLE')
  expect(refused.message).not.toContain('npm install')
  const unreachable = await connect('postgres://127.0.0.1:1').catch((thrown) => thrown)
  expect(unreachable.message).toContain('ECONNREFUSED')
}, 60_000)

test('opens a file', async () => {
  const locks = await connect('sqlite:' + __dirname + '/jest.sqlite')
  await locks.run('job', async (lease) => expect(lease.held).toBe(true))
  await locks.close()
})
`

/** As `leasehold/testing` and a client that is missing are found by Jest's own loaders. */
const jestModuleTest = `
import { createLocks, LeaseholdError } from 'leasehold'
import { memory } from 'leasehold/memory'
import { faulty } from 'leasehold/testing'

test('holds a lock', async () => {
  const locks = await createLocks({ driver: memory() })
  await locks.run('job', async () => expect(await locks.tryAcquire('job')).toBeNull())
  await locks.close()
  expect(typeof faulty).toBe('function')
  expect(typeof LeaseholdError).toBe('function')
})
`

const typed = `
import { connect, createLocks, LeaseholdError, type Lease, type Locks } from 'leasehold'
import { memory } from 'leasehold/memory'
import { redis } from 'leasehold/redis'
import { serve } from 'leasehold/server'
import { sqlGuard } from 'leasehold/guards'
`
const typedBody = `
export async function work(locks: Locks): Promise<number> {
  return locks.run('job', { ttl: '30s' }, async (lease: Lease) => lease.fence)
}
export const used = { connect, redis, serve, sqlGuard }
export async function main(): Promise<void> {
  const locks = await createLocks({ driver: memory() })
  const fence = await work(locks)
  await locks.close()
  const error: unknown = await connect('nowhere:').catch((thrown: unknown) => thrown)
  console.log(fence > 0, error instanceof LeaseholdError)
}
`

const compilerOptions = {
  target: 'es2022',
  lib: ['es2023', 'esnext.disposable'],
  strict: true,
  skipLibCheck: false,
  types: ['node'],
  outDir: 'out',
  esModuleInterop: true,
}

export const rows = new Map([
  [
    'require, beside import',
    (project) => {
      project.install('@photostructure/sqlite@1.2.1')
      project.write({
        'thread.cjs': `
          const { connect } = require('leasehold')
          connect('sqlite:locks.sqlite', { heartbeatThread: true }).then(async (locks) => {
            await locks.run('job', async (lease) => console.log('held', lease.held))
            await locks.close()
          })`,
        'both.mjs': `
          import { createRequire } from 'node:module'
          import * as imported from 'leasehold'
          import { memory } from 'leasehold/memory'
          import { sql } from './guards.mjs'
          const require = createRequire(import.meta.url)
          const required = require('leasehold')
          for (const [name, value] of Object.entries(required)) {
            if (imported[name] !== value) throw new Error('two of ' + name)
          }
          const names = Object.keys(imported).filter((name) => name !== 'default' && name !== 'module.exports')
          if (names.length !== Object.keys(required).length) throw new Error('they export not the same')
          if (require('leasehold/memory').memory !== memory) throw new Error('two of memory')
          const one = await imported.connect('memory:shared')
          const other = await required.connect('memory:shared')
          const lease = await one.acquire('job')
          console.log('taken', await other.tryAcquire('job'))
          const error = await required.connect('nowhere:').catch((thrown) => thrown)
          console.log(error instanceof imported.LeaseholdError, sql)
          await lease.release()
          await one.close()
          await other.close()`,
        'guards.mjs': `export * from 'leasehold/guards'\nexport const sql = 'every entry loads'\n`,
        'every.cjs': `
          const names = Object.keys(require('leasehold/package.json').exports)
          for (const name of names) require(name.replace('.', 'leasehold'))
          console.log('required', names.length)`,
        'every.mjs': `
          import { readFileSync } from 'node:fs'
          const { exports } = JSON.parse(readFileSync('node_modules/leasehold/package.json', 'utf8'))
          const names = Object.keys(exports).filter((name) => !name.endsWith('.json'))
          for (const name of names) await import(name.replace('.', 'leasehold'))
          console.log('imported', names.length)`,
      })
      assert.equal(project.run('both.mjs'), 'taken null\ntrue every entry loads\n')
      assert.equal(project.run('thread.cjs'), 'held true\n')
      const command = ['node_modules/leasehold/dist/node/cli.js', 'run', 'job', '--store', 'sqlite:locks.sqlite']
      const said = project.runTool('leasehold', ...command, '--', process.execPath, '-p', '40 + 2')
      assert.match(said, /^42$/m)
      assert.match(project.run('every.cjs'), /^required \d\d\n$/)
      assert.match(project.run('every.mjs'), /^imported \d\d\n$/)
    },
  ],
  [
    'jest, in CommonJS',
    (project) => {
      const clients = ['ioredis@5.11.1', 'pg@8.23.1', '@photostructure/sqlite@1.2.1']
      project.install('jest@30.5.2', ...clients)
      project.write({
        'package.json': '{ "private": true, "jest": { "testEnvironment": "node", "cacheDirectory": ".cache" } }',
        'locks.test.js': jestTest,
      })
      project.runTool('jest', 'node_modules/jest/bin/jest.js', '--ci')
    },
  ],
  ...['29.7.0', '30.5.2'].map((version) => [
    `jsdom and ES modules, in Jest ${version}`,
    (project) => {
      project.install(`jest@${version}`, `jest-environment-jsdom@${version}`)
      const packageFile = (settings) =>
        JSON.stringify({ private: true, jest: { cacheDirectory: '.cache', ...settings } })
      const requiring = jestModuleTest.replaceAll(/import (.*) from (.*)/g, 'const $1 = require($2)')
      project.write({
        'locks.test.js': requiring,
        'package.json': packageFile({ testEnvironment: 'jsdom', testMatch: ['**/*.test.js'] }),
      })
      project.runTool('jest', 'node_modules/jest/bin/jest.js', '--ci')
      project.write({
        'locks.test.mjs': jestModuleTest,
        'package.json': packageFile({ testEnvironment: 'node', testMatch: ['**/*.test.mjs'] }),
      })
      project.runTool('jest', '--experimental-vm-modules', 'node_modules/jest/bin/jest.js', '--ci')
    },
  ]),
  [
    'ts-jest, in CommonJS',
    (project) => {
      project.install(
        'jest@30.5.2',
        'ts-jest@29.4.15',
        'typescript@5.9.3',
        '@types/jest@30.0.0',
        '@types/node@20.19.43',
      )
      project.write({
        'package.json':
          '{ "private": true, "jest": { "preset": "ts-jest", "testEnvironment": "node", "cacheDirectory": ".cache" } }',
        'tsconfig.json': JSON.stringify({
          compilerOptions: {
            ...compilerOptions,
            types: ['node', 'jest'],
            module: 'commonjs',
            moduleResolution: 'node10',
          },
        }),
        'locks.test.ts': `${typed}${typedBody}
          test('one at a time', async () => {
            const locks = await createLocks({ driver: memory() })
            expect(await work(locks)).toBeGreaterThan(0)
            await locks.close()
          })`,
      })
      project.runTool('jest', 'node_modules/jest/bin/jest.js', '--ci')
    },
  ],
  ...[
    ['node16', 'node16', 'commonjs'],
    ['nodenext', 'nodenext', 'module'],
    ['commonjs', 'node10', 'commonjs'],
  ].map(([module, moduleResolution, type]) => [
    `tsc, with ${moduleResolution} in a package of type ${type}`,
    (project) => {
      project.install('typescript@5.9.3', '@types/node@20.19.43')
      project.write({
        'package.json': JSON.stringify({ private: true, type }),
        'tsconfig.json': JSON.stringify({
          compilerOptions: { ...compilerOptions, module, moduleResolution },
          files: ['main.ts'],
        }),
        'main.ts': `${typed}${typedBody}\nvoid main()\n`,
      })
      project.runTool('tsc', 'node_modules/typescript/bin/tsc')
      assert.equal(project.run('out/main.js'), 'true true\n')
    },
  ]),
])
