// Says whether this checkout can be released, and what is wrong if not. Run it after `npm ci`, which builds the package.
//
//   npm run release:check                        before a tag is made: the section of CHANGELOG.md may still say "unreleased"
//   npm run release:check -- --tag v1.2.3        as .github/workflows/release.yml does: the tag names this version
//   npm run release:check -- --notes FILE        also writes the version's section of CHANGELOG.md to FILE
//   npm run release:check -- --root DIRECTORY    looks at another checkout
//
// Where GITHUB_OUTPUT names a file, `version` and `npm-tag` are added to it.
import { execFileSync, spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { packedBytesMax, unpackedBytesMax } from './tarball-bounds.mjs'

const { values: options } = parseArgs({
  options: {
    tag: { type: 'string' },
    notes: { type: 'string' },
    root: { type: 'string', default: fileURLToPath(new URL('..', import.meta.url)) },
  },
})
const { root, tag } = options
const read = (file) => readFileSync(path.join(root, file), 'utf8')
const manifest = JSON.parse(read('package.json'))
const { version } = manifest
const section = sectionOf(read('CHANGELOG.md'), version)

const checks = {
  'every file says the same version': versionProblems,
  'CHANGELOG.md has its section': changelogProblems,
  'the working tree is as it was committed': treeProblems,
  'the tarball has what it should, and no more': tarballProblems,
}
let failed = 0
for (const [title, problemsOf] of Object.entries(checks)) {
  const problems = problemsOf()
  failed += problems.length
  console.log(`${problems.length === 0 ? 'ok    ' : 'FAILED'} ${title}`)
  for (const problem of problems) console.log(`       ${problem}`)
}
if (failed > 0) process.exit(1)

if (options.notes !== undefined) writeFileSync(options.notes, `${section.text}\n`)
// npm gives "latest" to whatever is published last unless it is told another name.
const npmTag = version.includes('-') ? 'next' : 'latest'
if (process.env.GITHUB_OUTPUT) appendFileSync(process.env.GITHUB_OUTPUT, `version=${version}\nnpm-tag=${npmTag}\n`)
console.log(`${manifest.name} ${version} can be released as ${npmTag}`)

function versionProblems() {
  const said = new Map([
    ['package-lock.json', JSON.parse(read('package-lock.json')).version],
    ['src/core/package-version.ts', /'([^']+)'/.exec(read('src/core/package-version.ts'))?.[1]],
  ])
  if (tag !== undefined) said.set('the tag', tag.replace(/^v/, ''))
  for (const file of ['compose.yaml', 'deploy/kubernetes.yaml']) {
    said.set(file, /^ *image: ghcr\.io\/leasehold\/leasehold:(\S+)$/m.exec(read(file))?.[1])
  }
  if (tag !== undefined && !tag.startsWith('v')) return [`the tag is ${tag}, and should begin with v`]
  const others = [...said].filter(([, each]) => each !== version)
  return others.map(([where, each]) => `package.json says ${version}, but ${where} says ${each ?? 'none'}`)
}

function changelogProblems() {
  if (section === undefined) return [`there is no heading "## ${version}, YYYY-MM-DD"`]
  if (section.text === '') return ['the section is empty']
  const isDated = /^\d{4}-\d{2}-\d{2}$/.test(section.when)
  if (isDated || (tag === undefined && section.when === 'unreleased')) return []
  return [`the heading says "${section.when}" where the day of the release belongs, as YYYY-MM-DD`]
}

/** The section of a version, and what its heading says after it. */
function sectionOf(changelog, wanted) {
  const sections = changelog.split(/^## /m).slice(1)
  const own = sections.map((text) => text.split(/\n([^]*)/)).find(([heading]) => heading.split(', ')[0] === wanted)
  return own && { when: own[0].split(', ')[1] ?? '', text: (own[1] ?? '').trim() }
}

function treeProblems() {
  // A container's root is mostly not who made the checkout; git would refuse to look at it.
  const args = ['-c', `safe.directory=${path.resolve(root)}`, 'status', '--porcelain']
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: root, encoding: 'utf8' })
  return (status === 0 ? stdout : `git status failed: ${stderr}`).split('\n').filter((line) => line !== '')
}

function tarballProblems() {
  const args = ['pack', '--dry-run', '--ignore-scripts', '--json']
  const shell = process.platform === 'win32'
  const [{ files, size, unpackedSize }] = JSON.parse(execFileSync('npm', args, { cwd: root, encoding: 'utf8', shell }))
  const names = new Set(files.map((file) => file.path))
  const problems = []
  if (size > packedBytesMax) problems.push(`${size} bytes packed, of ${packedBytesMax} at most`)
  if (unpackedSize > unpackedBytesMax) problems.push(`${unpackedSize} bytes unpacked, of ${unpackedBytesMax} at most`)
  for (const name of names) if (!isPublished(name)) problems.push(`${name} should not be in it`)
  for (const name of ['README.md', 'LICENSE', ...targetsOf(manifest)]) {
    if (!names.has(name))
      problems.push(`${name} is missing${existsSync(path.join(root, name)) ? '' : '. Run: npm run build'}`)
  }
  return problems
}

/** Code without its maps. */
function isPublished(name) {
  if (['package.json', 'README.md', 'LICENSE'].includes(name)) return true
  return /^dist\/(.*\.([cm]?js|d\.[cm]?ts)|(node|types)\/package\.json)$/.test(name)
}

/** The files that `bin` and `exports` lead to. */
function targetsOf({ bin, exports }) {
  const targets = []
  const collect = (value) => {
    if (typeof value === 'string') targets.push(value.replace(/^\.\//, ''))
    else for (const each of Object.values(value)) collect(each)
  }
  collect(bin)
  collect(exports)
  return targets.filter((target) => !target.includes('*'))
}
