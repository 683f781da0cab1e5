// Bundlers, and plain npm.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import path from 'node:path'

/** Opens stores by their URLs: one that needs no client, and one whose client is missing or too old. */
const connecting = `
import { connect } from 'leasehold'
async function main() {
  const locks = await connect('memory:')
  await locks.run('job', async (lease) => console.log('held', lease.fence > 0))
  await locks.close()
  await connect('mongodb://127.0.0.1:1').catch(({ message }) => console.log(message))
}
main()
`
const connectingSays = (installed) =>
  `held true\nUNAVAILABLE: The mongodb driver needs mongodb ^6.11 or ^7${installed}. Run: npm install mongodb@7\n`

/** Names one driver, and is to carry no other. */
const oneDriver = `
import { createLocks } from 'leasehold'
import { memory } from 'leasehold/memory'
async function main() {
  const locks = await createLocks({ driver: memory() })
  await locks.run('job', async (lease) => console.log('held', lease.fence > 0))
  await locks.close()
}
main()
`
const ofOtherDrivers = ['The mongodb driver', 'A Redis Cluster', '@photostructure/sqlite']

/** Finds a client at run time beside its bundle; a thread has no file of its own there. */
const sqlite = `
import { connect } from 'leasehold'
async function main() {
  const locks = await connect('sqlite:locks.sqlite')
  await locks.run('job', async (lease) => console.log('held', lease.fence > 0))
  await locks.close()
  await connect('sqlite:locks.sqlite', { heartbeatThread: true }).catch(({ message }) => console.log(message))
}
main()
`
const sqliteSays =
  'held true\nUNSUPPORTED: heartbeatThread starts a thread from a file of Leasehold, which is not beside this bundle. ' +
  'Tell the bundler that leasehold is external.\n'

/** For a page or a worker, where nothing of Node is to be had. */
const forPages = `
import { connect, createLocks } from 'leasehold'
import { http } from 'leasehold/http'
import { memory } from 'leasehold/memory'
export const open = (url) => createLocks({ driver: http(url) })
connect('memory:shared').then(async (locks) => {
  const others = await createLocks({ driver: memory({ name: 'shared' }) })
  await locks.run('job', async () => console.log('taken', await others.tryAcquire('job')))
  await connect('redis://127.0.0.1:1').catch(({ message }) => console.log(message))
})
`
const forPagesSays =
  'taken null\nUNSUPPORTED: Only stores of the schemes http:, https: and memory: can be opened in a page or an edge worker. ' +
  'Put a Leasehold server in front of your store (leasehold serve), and connect to that.\n'

export const rows = new Map([
  [
    'esbuild, beside clients and test tools of versions that do not fit',
    (project) => {
      project.write({ 'connecting.mjs': connecting, 'one-driver.mjs': oneDriver, 'sqlite.mjs': sqlite })
      project.install('vitest@3.2.4', 'mongodb@5.9.2', 'ioredis@4.31.0', 'esbuild@0.28.2')
      const installed = connectingSays(', and mongodb 5.9.2 is installed')
      assert.equal(project.run('connecting.mjs'), installed)
      for (const [format, ending] of Object.entries({ esm: 'mjs', cjs: 'cjs' })) {
        project.evaluate(`
          import { build } from 'esbuild'
          for (const name of ['connecting', 'one-driver']) {
            const outfile = 'out/' + name + '.${ending}'
            const settings = { bundle: true, platform: 'node', format: '${format}', logLevel: 'silent' }
            const { warnings } = await build({ entryPoints: [name + '.mjs'], outfile, ...settings })
            if (warnings.length > 0) throw new Error(JSON.stringify(warnings))
          }`)
        assert.equal(project.run(`out/connecting.${ending}`), installed)
        assertOneDriver(project, `out/one-driver.${ending}`)
      }
    },
  ],
  [
    'pages, bundled by esbuild and webpack',
    (project) => {
      project.install('esbuild@0.28.2', 'webpack@5.112.2')
      project.write({ 'page.mjs': forPages })
      project.evaluate(`
        import { build } from 'esbuild'
        import webpack from 'webpack'
        const settings = { entryPoints: ['page.mjs'], bundle: true, format: 'esm', logLevel: 'silent' }
        const ways = { browser: { platform: 'browser' }, worker: { platform: 'neutral', conditions: ['workerd', 'worker', 'browser'] } }
        for (const [name, way] of Object.entries(ways)) {
          const { warnings } = await build({ ...settings, ...way, outfile: 'out/' + name + '.mjs' })
          if (warnings.length > 0) throw new Error(JSON.stringify(warnings))
        }
        const stats = await new Promise((resolve, reject) => webpack({
          mode: 'production', target: 'web', devtool: false, entry: './page.mjs', performance: false,
          output: { path: import.meta.dirname + '/out', filename: 'webpack.cjs' },
        }, (error, stats) => error ? reject(error) : resolve(stats)))
        const { errors, warnings } = stats.toJson()
        if (errors.length + warnings.length > 0) throw new Error(JSON.stringify([...errors, ...warnings].map((e) => e.message)))`)
      for (const file of ['browser.mjs', 'worker.mjs', 'webpack.cjs']) {
        assert.equal(project.run(`out/${file}`), forPagesSays)
        assert.doesNotMatch(project.read(`out/${file}`), /(?:from|import\(|require\()\s*["']node:/)
      }
    },
  ],
  [
    'npm, and nothing else',
    (project) => {
      project.write({ 'connecting.mjs': connecting, 'one-driver.mjs': oneDriver, 'sqlite.mjs': sqlite })
      const printed = project.installWithScripts()
      assert.doesNotMatch(printed, /peer|deprecated|optional/i)
      // npm looks at "prepare" where a package does not come from a registry, and names our own here.
      const scripted = [...printed.matchAll(/^npm warn install-scripts {3}(\S+)@/gm)].map(([, name]) => name)
      assert.deepEqual(
        scripted.filter((name) => name !== 'leasehold'),
        [],
      )
      const packages = readdirSync(path.join(project.folder, 'node_modules')).filter((name) => !name.startsWith('.'))
      assert.deepEqual(packages, ['leasehold'])
      assert.equal(project.run('connecting.mjs'), connectingSays(''))
    },
  ],
  [
    'webpack',
    (project) => {
      project.write({ 'connecting.mjs': connecting, 'one-driver.mjs': oneDriver, 'sqlite.mjs': sqlite })
      project.install('webpack@5.112.2')
      project.evaluate(`
        import webpack from 'webpack'
        const esm = { module: true, chunkFormat: 'module', library: { type: 'module' } }
        for (const name of ['connecting', 'one-driver']) for (const ending of ['cjs', 'mjs']) {
          const stats = await new Promise((resolve, reject) => webpack({
            mode: 'production', target: 'node20', devtool: false, optimization: { minimize: false },
            entry: './' + name + '.mjs', experiments: { outputModule: ending === 'mjs' },
            output: { path: import.meta.dirname + '/out', filename: name + '.' + ending, ...(ending === 'mjs' && esm) },
          }, (error, stats) => error ? reject(error) : resolve(stats)))
          const { errors, warnings } = stats.toJson()
          if (errors.length + warnings.length > 0) throw new Error(JSON.stringify([...errors, ...warnings].map((e) => e.message)))
        }`)
      for (const ending of ['cjs', 'mjs']) {
        assert.equal(project.run(`out/connecting.${ending}`), connectingSays(''))
        assertOneDriver(project, `out/one-driver.${ending}`)
      }
    },
  ],
  [
    'rollup, with a client found at run time',
    (project) => {
      project.write({ 'connecting.mjs': connecting, 'one-driver.mjs': oneDriver, 'sqlite.mjs': sqlite })
      project.install('rollup@4.68.3', '@rollup/plugin-node-resolve@16.0.3', '@photostructure/sqlite@1.2.1')
      for (const [format, ending] of Object.entries({ es: 'mjs', cjs: 'cjs' })) {
        project.evaluate(`
          import { rollup } from 'rollup'
          import { nodeResolve } from '@rollup/plugin-node-resolve'
          const onwarn = ({ code, message }) => {
            // The compiler's helpers are written for scripts as well.
            if (code !== 'THIS_IS_UNDEFINED') throw new Error(message)
          }
          for (const name of ['connecting', 'one-driver', 'sqlite']) {
            const bundle = await rollup({ input: name + '.mjs', external: /^node:/, onwarn,
              plugins: [nodeResolve({ exportConditions: ['node'] })] })
            await bundle.write({ file: 'out/' + name + '.${ending}', format: '${format}', inlineDynamicImports: true })
          }`)
        assert.equal(project.run(`out/connecting.${ending}`), connectingSays(''))
        assert.equal(project.run(`out/sqlite.${ending}`), sqliteSays)
        assertOneDriver(project, `out/one-driver.${ending}`)
      }
    },
  ],
  [
    'vite, for a server',
    (project) => {
      project.write({ 'connecting.mjs': connecting, 'one-driver.mjs': oneDriver, 'sqlite.mjs': sqlite })
      project.install('vite@7.3.1')
      project.evaluate(`
        import { build } from 'vite'
        for (const name of ['connecting', 'one-driver']) await build({
          logLevel: 'error', ssr: { noExternal: true },
          build: { ssr: name + '.mjs', outDir: 'out/' + name, minify: false },
        })`)
      assert.equal(project.run('out/connecting/connecting.js'), connectingSays(''))
      assertOneDriver(project, 'out/one-driver/one-driver.js')
    },
  ],
])

function assertOneDriver(project, file) {
  assert.equal(project.run(file), 'held true\n')
  const text = project.read(file)
  for (const part of ofOtherDrivers)
    assert.ok(!text.includes(part), `${file} has a driver that it does not name: ${part}`)
}
