// Builds the package to dist, or with --dev everything (tests, benches, examples too) to .build.
// npm runs this after `npm ci` (the "prepare" script), so that a clone is ready to use.
//
//   dist/node      what Node, Bun and Deno run: CommonJS, and beside each entry NAME.js a NAME.mjs that exports the same.
//                  A process that imports and requires has one of everything.
//   dist/bundler   ES modules for bundlers, which leave out of them what nobody uses
//   dist/types     the declarations: CommonJS ones, and beside each entry's NAME.d.ts a NAME.d.mts
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { minifySync } from 'rolldown/utils'
import { embed } from './embed.mjs'
import { withoutSqlComments } from './sql-comments.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const dist = path.join(root, 'dist')
const dev = process.argv.includes('--dev')
const { bin, exports } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const commands = Object.values(bin).map((file) => path.join(root, file))

// The first `npx leasehold` in a clone links the clone into npx's cache, and npm then runs "prepare" again.
// Rebuilding there would pull dist from under commands that are already running.
const { npm_command: npmCommand, npm_lifecycle_event: npmEvent } = process.env
if (npmCommand === 'exec' && npmEvent === 'prepare' && commands.every((file) => existsSync(file))) process.exit(0)

/** Ends this process if there is something wrong. */
function compile(...options) {
  const compiler = path.join(root, 'node_modules/typescript/bin/tsc')
  const { status } = spawnSync(process.execPath, [compiler, ...options], { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

/** Every module that users can name, with the file of its declarations below dist/types. */
function entriesOf(map) {
  const named = Object.entries(map).filter(([, target]) => typeof target === 'object')
  return named.map(([name, { require: target, module }]) => ({
    name: name === '.' ? 'index' : name.slice(2),
    declarations: target.types,
    source: target.types.replace('./dist/types', './src').replace('.d.ts', '.ts'),
    forBundlers: module !== undefined,
  }))
}

async function buildForNode(entries) {
  const folder = path.join(dist, 'node')
  const inputs = {
    ...inputsOf(entries),
    cli: './src/cli/main.ts',
    // Started by their files.
    'heartbeat-worker': './src/api/heartbeat/heartbeat-worker.ts',
    sweeper: './src/cli/supervise/sweeper.ts',
  }
  const chunks = await bundle(inputs, folder, 'cjs')
  for (const { name } of entries) {
    const { exports: names } = chunks.find((chunk) => chunk.isEntry && chunk.name === name)
    const own = names.filter((each) => each !== 'useVitest')
    const text = `export { ${own.toSorted().join(', ')} } from './${name}.js'\n`
    writeFileSync(path.join(folder, `${name}.mjs`), name === 'testing' ? `${findVitest}${text}` : text)
  }
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "commonjs" }\n')
}

/** src/testing/find-vitest.ts for the package. */
const findVitest = `import { useVitest } from './testing.js'
if (process.env.VITEST !== undefined)
  useVitest(
    await import('vitest').catch((error) => {
      if (!error.code?.endsWith('MODULE_NOT_FOUND')) throw error
    }),
  )
`

async function buildForBundlers(entries) {
  const wanted = entries.filter(({ forBundlers }) => forBundlers)
  const others = { web: './src/web/index.ts', 'heartbeat-worker': './src/api/heartbeat/heartbeat-worker.ts' }
  await bundle({ ...inputsOf(wanted), ...others }, path.join(dist, 'bundler'), 'esm')
}

function inputsOf(entries) {
  return Object.fromEntries(entries.map(({ name, source }) => [name, source]))
}

/** Comments are for readers of src, and of the declarations. Those that speak to bundlers stay. */
async function bundle(input, dir, format) {
  const commonjs = format === 'cjs'
  const build = await rolldown({
    input,
    cwd: root,
    platform: 'node',
    // Helpers of the compiler are taken in; clients of stores and Node's own modules are not.
    external: (id) => !/^[./\0]|^@oxc-project\/runtime/.test(id) && !path.isAbsolute(id),
    plugins: commonjs ? [smallPages, commonjsVariants] : [smallPages, sqlWithoutComments],
    transform: { target: 'node20.19' },
    logLevel: 'warn',
    experimental: { attachDebugInfo: 'none' },
  })
  const { output } = await build.write({
    dir,
    format,
    // Names stay in what Node runs: they are in stack traces.
    minify: commonjs ? { compress: true, mangle: false, codegen: { removeWhitespace: false } } : true,
    comments: { legal: false, annotation: true, jsdoc: false },
    entryFileNames: '[name].js',
    chunkFileNames: '[name].js',
  })
  await build.close()
  return output
}

/** The dashboard's page, scripts and styles, as browsers get them: without comments and indentation. */
const smallPages = {
  name: 'small-pages',
  load(id) {
    const source = /^(.*[\\/]page[\\/][^\\/]+\.(js|css|html))\.generated\.ts$/.exec(id)
    if (source === null) return undefined
    const [, file, kind] = source
    const text = readFileSync(file, 'utf8')
    const small = kind === 'js' ? minifySync(file, text, { module: true }).code : smallText(text)
    return `export default ${JSON.stringify(small)}`
  },
}

/** In a bundle nobody reads it. `dist/node` keeps the comments, for those who print the schema and apply it themselves. */
const sqlWithoutComments = {
  name: 'sql-without-comments',
  load(id) {
    if (!id.endsWith('.sql.generated.ts')) return undefined
    const text = readFileSync(id.replace('.generated.ts', ''), 'utf8')
    return `export default ${JSON.stringify(withoutSqlComments(text))}`
  },
}

function smallText(text) {
  return text
    .replaceAll(/\/\*[^]*?\*\/|<!--[^]*?-->/g, '')
    .replaceAll(/\n\s*/g, '\n')
    .replaceAll(/(?<=[{};,])\n| (?=\{\n)/g, '')
}

/** What differs where there is no `import.meta` and no top-level await. */
const commonjsVariants = {
  name: 'commonjs-variants',
  load(id) {
    const file = id.replaceAll('\\', '/')
    if (file.endsWith('/src/testing/find-vitest.ts')) return `export { useVitest } from './vitest.ts'`
    if (!file.endsWith('/src/core/machine/module-loading.ts')) return undefined
    return readFileSync(id.replace(/\.ts$/, '-commonjs.ts'), 'utf8')
  },
}

/** Leaves the declarations that exports lead to, a third of them, as CommonJS; and writes what ES modules see of each entry. */
function finishDeclarations(entries) {
  const folder = path.join(dist, 'types')
  const reached = new Set()
  const reach = (file) => {
    if (reached.has(file)) return
    reached.add(file)
    const text = readFileSync(file, 'utf8')
    const specifier = /\b((?:from|import)\s*\(?\s*['"])(\.[^'"]+)\.[jt]s(['"])/g
    for (const [, , stem] of text.matchAll(specifier)) reach(path.resolve(path.dirname(file), `${stem}.d.ts`))
    writeFileSync(file, text.replaceAll(specifier, '$1$2.js$3'))
  }
  for (const { declarations } of entries) reach(path.join(root, declarations))
  for (const file of filesOf(folder)) if (!reached.has(file)) rmSync(file)
  for (const { declarations } of entries) {
    const file = path.join(root, declarations)
    writeFileSync(file.replace(/\.d\.ts$/, '.d.mts'), `export * from './${path.basename(file, '.d.ts')}.js'\n`)
  }
  mkdirSync(folder, { recursive: true })
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "commonjs" }\n')
}

function filesOf(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name))
}

embed()
if (dev) compile('--project', 'tsconfig.dev.json')
else {
  // A file that lost its source must not be published.
  rmSync(dist, { recursive: true, force: true })
  compile('--project', 'tsconfig.json', '--outDir', 'dist/types', '--emitDeclarationOnly')
  const entries = entriesOf(exports)
  finishDeclarations(entries)
  await buildForNode(entries)
  await buildForBundlers(entries)
  for (const file of commands) chmodSync(file, 0o755)
}
