// Runs one bench or proof by name, from code built just before.
//
//   npm run bench                    lists the benches
//   npm run bench -- NAME [args]     runs bench/NAME.ts
//   npm run bench -- NAME --help     says what it is and what it takes
//   npm run prove -- NAME [args]     runs prove/NAME.ts
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const [kind, name, ...args] = process.argv.slice(2)
const folder = path.join(root, kind)
const names = existsSync(folder) ? readdirSync(folder).filter(isRunnable).map(nameOf) : []

if (name === undefined || name === '--help') {
  list(console.log)
} else if (!names.includes(name)) {
  console.error(`${kind}/${name}.ts does not exist.`)
  list(console.error)
  process.exit(2)
} else if (args.includes('--help')) {
  console.log(descriptionOf(name))
} else {
  // Both builds: what is run may import src, and may start the package or its command as a user would.
  run(path.join(root, 'scripts/build.mjs'), [])
  run(path.join(root, 'scripts/build.mjs'), ['--dev'])
  run(path.join(root, '.build', kind, `${name}.js`), args, nodeOptionsOf(name))
}

/** Runs a script, and when it fails ends this process the same way. */
function run(script, scriptArguments, nodeOptions = []) {
  const { status } = spawnSync(process.execPath, [...nodeOptions, script, ...scriptArguments], { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

function list(print) {
  print(`Usage: npm run ${kind} -- NAME [args]\n`)
  const width = Math.max(0, ...names.map((each) => each.length))
  for (const each of names) print(`  ${each.padEnd(width)}  ${summaryOf(each)}`)
  if (names.length === 0) print(`  There is nothing in ${kind}/ yet.`)
}

/** The first line of the first doc comment in the file. */
function summaryOf(each) {
  return descriptionOf(each).split('\n')[0]
}

/** The first doc comment in the file. */
function descriptionOf(each) {
  const text = readFileSync(path.join(folder, `${each}.ts`), 'utf8')
  const comment = /\/\*\*([^]*?)\*\//.exec(text)?.[1] ?? ''
  return comment.replaceAll(/^ *\* ?/gm, '').trim()
}

/** What the doc comment says that Node is started with: "Runs with `node --flag`". */
function nodeOptionsOf(each) {
  const [, options] = /Runs with `node ([^`]+)`/.exec(descriptionOf(each)) ?? []
  return options?.split(' ') ?? []
}

function nameOf(file) {
  return path.basename(file, '.ts')
}

/** report.ts is what the benches share; folders hold what they start. */
function isRunnable(file) {
  return file.endsWith('.ts') && file !== 'report.ts'
}
