// Installs the packed tarball as its users do, each in a project of its own in a temporary folder, with the real tools from npm.
// Not part of `npm test`, which runs the first row (test/integration/consumers.test.ts).
//
//   npm run test:consumers                    every row below
//   npm run test:consumers -- webpack vite    these
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

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

const rows = new Map([
  [
    'esbuild, beside clients and test tools of versions that do not fit',
    (project) => {
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
    'npm, and nothing else',
    (project) => {
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
      project.install('webpack@5.112.2')
      project.evaluate(`
        import webpack from 'webpack'
        for (const name of ['connecting', 'one-driver']) {
          const stats = await new Promise((resolve, reject) => webpack({
            mode: 'production', target: 'node', devtool: false, optimization: { minimize: false },
            entry: './' + name + '.mjs', output: { path: import.meta.dirname + '/out', filename: name + '.cjs' },
          }, (error, stats) => error ? reject(error) : resolve(stats)))
          const { errors, warnings } = stats.toJson()
          if (errors.length + warnings.length > 0) throw new Error(JSON.stringify([...errors, ...warnings].map((e) => e.message)))
        }`)
      assert.equal(project.run('out/connecting.cjs'), connectingSays(''))
      assertOneDriver(project, 'out/one-driver.cjs')
    },
  ],
  [
    'rollup, with a client found at run time',
    (project) => {
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

class Project {
  folder = mkdtempSync(path.join(tmpdir(), 'leasehold-consumer-'))
  #tarball

  constructor(tarball) {
    this.#tarball = tarball
    mkdirSync(path.join(this.folder, 'out'))
    writeFileSync(path.join(this.folder, 'package.json'), '{ "private": true, "type": "module" }')
    for (const [name, text] of Object.entries({ connecting, 'one-driver': oneDriver, sqlite })) {
      writeFileSync(path.join(this.folder, `${name}.mjs`), text)
    }
  }

  install(...packages) {
    npm(this.folder, 'install', '--ignore-scripts', this.#tarball, ...packages)
  }

  /** What npm prints. */
  installWithScripts() {
    const { stdout, stderr } = npm(this.folder, 'install', this.#tarball)
    return `${stdout}${stderr}`
  }

  evaluate(text) {
    writeFileSync(path.join(this.folder, 'evaluate.mjs'), text)
    this.run('evaluate.mjs')
  }

  /** What a program of the project prints. */
  run(file) {
    return finished(process.execPath, [file], this.folder).stdout
  }

  read(file) {
    return readFileSync(path.join(this.folder, file), 'utf8')
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

function assertOneDriver(project, file) {
  assert.equal(project.run(file), 'held true\n')
  const text = project.read(file)
  for (const part of ofOtherDrivers)
    assert.ok(!text.includes(part), `${file} has a driver that it does not name: ${part}`)
}

function npm(folder, command, ...args) {
  const quiet = ['--no-audit', '--no-fund', '--prefer-offline', '--no-update-notifier']
  return finished('npm', [command, ...quiet, ...args], folder)
}

/** What a program printed, which must end well. */
function finished(command, args, cwd) {
  const shell = process.platform === 'win32' && command === 'npm'
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8', timeout: 300_000, shell })
  if (status === 0) return { stdout, stderr }
  throw new Error(`${path.basename(command)} ${args.join(' ')} ended with ${status}\n${stdout}${stderr}`.slice(0, 4000))
}

/** The tarball, out of what is built. It carries no maps, and stays small. */
function pack(folder) {
  const args = ['--ignore-scripts', '--json', '--pack-destination', folder]
  const [{ filename, files, size, unpackedSize }] = JSON.parse(npm(root, 'pack', ...args).stdout)
  const maps = files.filter((file) => file.path.endsWith('.map'))
  assert.deepEqual(maps, [])
  assert.ok(size <= 650_000 && unpackedSize <= 2_500_000, `${size} bytes packed, ${unpackedSize} unpacked`)
  return path.join(folder, filename)
}

const asked = process.argv.slice(2)
const chosen = [...rows].filter(([name]) => asked.length === 0 || asked.some((word) => name.startsWith(word)))
if (chosen.length === 0) {
  console.error(
    `No row called ${asked.join(', ')}. Choose of: ${[...rows.keys()].map((name) => name.split(',')[0]).join(', ')}`,
  )
  process.exit(2)
}

const packed = mkdtempSync(path.join(tmpdir(), 'leasehold-packed-'))
let failed = 0
try {
  const tarball = pack(packed)
  for (const [name, check] of chosen) {
    const project = new Project(tarball)
    const startedAt = performance.now()
    try {
      check(project)
      console.log(`ok     ${name} (${((performance.now() - startedAt) / 1000).toFixed(1)} s)`)
    } catch (error) {
      failed += 1
      console.log(`FAILED ${name}\n${error.message}`)
    } finally {
      project.remove()
    }
  }
} finally {
  rmSync(packed, { recursive: true, force: true })
}
process.exit(failed > 0 ? 1 : 0)
