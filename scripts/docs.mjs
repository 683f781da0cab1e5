// Shows or builds docs/ as a site, with VitePress. Its tools are a package of their own in site/, installed at the first use.
//
//   node scripts/docs.mjs dev        serves the pages, and shows every change at once
//   node scripts/docs.mjs build      writes site/dist: pages, search index, llms.txt and llms-full.txt; a dead link fails
//   node scripts/docs.mjs preview    serves what was built
//
// DOCS_BASE=/leasehold/ builds a site for a path below the root of its host.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { deadLinksOf } from './docs/dead-links.mjs'
import { referenceOf } from './docs/reference.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const site = path.join(root, 'site')
const built = path.join(site, 'dist')
const [command = 'build'] = process.argv.slice(2)
if (!['dev', 'build', 'preview'].includes(command)) {
  console.error(`No command "${command}". Choose one of: dev, build, preview`)
  process.exit(2)
}

installTools()
if (command !== 'preview') {
  if (!existsSync(path.join(root, 'dist/types'))) run(root, process.execPath, 'scripts/build.mjs')
  referenceOf(root, (...options) => run(root, process.execPath, 'site/node_modules/typedoc/bin/typedoc', ...options))
}
if (command === 'build') rmSync(built, { recursive: true, force: true })
run(site, process.execPath, 'node_modules/vitepress/bin/vitepress.js', command)
if (command === 'build') {
  const dead = deadLinksOf(built, process.env.DOCS_BASE ?? '/')
  if (dead.length > 0) {
    console.error(`Dead links:\n${dead.join('\n')}`)
    process.exit(1)
  }
  console.log('The site is in site/dist. `npm run docs:preview` serves it.')
}

/** Installs the tools, unless those of this lock file are there. */
function installTools() {
  const mark = path.join(site, 'node_modules/.installed')
  const lock = readFileSync(path.join(site, 'package-lock.json'), 'utf8')
  if (existsSync(mark) && statSync(mark).size === lock.length && readFileSync(mark, 'utf8') === lock) return
  console.log('Installing the tools of the site (150 MB, once).')
  const shell = process.platform === 'win32'
  const { status } = spawnSync('npm', ['ci', '--ignore-scripts'], { cwd: site, stdio: 'inherit', shell })
  if (status !== 0) process.exit(status ?? 1)
  mkdirSync(path.dirname(mark), { recursive: true })
  writeFileSync(mark, lock)
}

function run(cwd, program, ...args) {
  const { status } = spawnSync(program, args, { cwd, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
