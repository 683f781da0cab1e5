// Builds the package to dist, or with --dev everything (tests, benches, examples too) to .build.
// npm runs this after `npm ci` (the "prepare" script), so that a clone is ready to use.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { embed } from './embed.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const dev = process.argv.includes('--dev')
const { bin, exports } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const commands = Object.values(bin).map((file) => path.join(root, file))

// The first `npx leasehold` in a clone links the clone into npx's cache, and npm then runs "prepare" again.
// Rebuilding there would pull dist from under commands that are already running.
const { npm_command: npmCommand, npm_lifecycle_event: npmEvent } = process.env
if (npmCommand === 'exec' && npmEvent === 'prepare' && commands.every((file) => existsSync(file))) process.exit(0)

embed()
// A file that lost its source must not be published.
if (!dev) rmSync(path.join(root, 'dist'), { recursive: true, force: true })
compile(dev ? 'tsconfig.dev.json' : 'tsconfig.json')
if (!dev) {
  removeComments()
  removeInnerDeclarations()
  for (const file of commands) chmodSync(file, 0o755)
}

/** Ends this process if there is something wrong. */
function compile(project, ...options) {
  const compiler = path.join(root, 'node_modules/typescript/bin/tsc')
  const args = [compiler, '-p', path.join(root, project), ...options]
  const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

/** Comments are for readers of src, and of the declarations. Some speak to bundlers, and stay. */
function removeComments() {
  const kept = new Map(filesOf('.js').map((file) => [file, readFileSync(file, 'utf8')]))
  compile('tsconfig.json', '--removeComments', '--declaration', 'false')
  for (const [file, text] of kept) if (text.includes('webpackIgnore')) writeFileSync(file, text)
}

/** Removes the declarations that no export leads to: two thirds of them, a sixth of the package. */
function removeInnerDeclarations() {
  const reached = new Set()
  const reach = (file) => {
    if (reached.has(file)) return
    reached.add(file)
    const specifiers = readFileSync(file, 'utf8').matchAll(/\b(?:from|import)\s*\(?\s*['"](\.[^'"]+)\.[jt]s['"]/g)
    for (const [, specifier] of specifiers) reach(path.resolve(path.dirname(file), `${specifier}.d.ts`))
  }
  for (const { types } of Object.values(exports)) if (types !== undefined) reach(path.join(root, types))
  for (const file of filesOf('.d.ts')) if (!reached.has(file)) rmSync(file)
}

/** The files of dist with this ending. */
function filesOf(ending) {
  const folder = path.join(root, 'dist')
  const names = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(ending))
  return names.map((name) => path.join(folder, name))
}
