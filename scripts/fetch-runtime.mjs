// Brings Bun or Deno from npm, once, into node_modules/.cache, and prints where its program is:
//
//   node scripts/fetch-runtime.mjs bun
//   node scripts/fetch-runtime.mjs deno 2.9.6
//
// It takes some seconds and 100 MB each.
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { fetchProgram } from './fetch-program.mjs'

const { platform, arch } = process
const ending = platform === 'win32' ? '.exe' : ''

/** The versions that the tests run on. */
export const runtimes = new Map([
  ['bun', { version: '1.4.4', name: bunPackage(), file: `bin/bun${ending}` }],
  ['deno', { version: '2.9.6', name: denoPackage(), file: `deno${ending}` }],
])

/** The program of a runtime. Throws if npm does not have it or cannot be reached. */
export function fetchRuntime(runtime, version = runtimes.get(runtime)?.version) {
  const known = runtimes.get(runtime)
  if (known === undefined)
    throw new Error(`No runtime called ${runtime}. Choose of: ${[...runtimes.keys()].join(', ')}`)
  const { name, file } = known
  return fetchProgram({ name, version, file, folder: path.join('runtimes', `${runtime}-${version}`) })
}

/** Bun's package for this machine. */
function bunPackage() {
  return `@oven/bun-${platform === 'win32' ? 'windows' : platform}-${arch === 'arm64' ? 'aarch64' : arch}`
}

/** Deno's package for this machine. */
function denoPackage() {
  return `@deno/${platform}-${arch}${platform === 'linux' ? '-glibc' : ''}`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(fetchRuntime(...process.argv.slice(2)))
