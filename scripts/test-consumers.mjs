// Installs the packed tarball as its users do, each in a project of its own in a temporary folder, with the real tools from npm.
// Not part of `npm test`, which runs the first row (test/integration/consumers.test.ts).
//
//   npm run test:consumers                    every row below
//   npm run test:consumers -- webpack vite    these
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { rows as bundlers } from './consumers/bundlers.mjs'
import { rows as commonjs } from './consumers/commonjs.mjs'
import { rows as guides } from './consumers/guides.mjs'
import { rows as next } from './consumers/next.mjs'
import { npm, Project } from './consumers/project.mjs'
import { rows as runtimes } from './consumers/runtimes.mjs'
import { rows as singleFiles } from './consumers/single-files.mjs'
import { rows as types } from './consumers/types.mjs'
import { packedBytesMax, unpackedBytesMax } from './tarball-bounds.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Each row is a name and what is to hold in a project of its own; it may return a promise. What it
 * returns says why it could not be run here. */
const rows = new Map([bundlers, commonjs, types, runtimes, singleFiles, next, guides].flatMap((table) => [...table]))

/** The tarball, out of what is built. It carries no maps, and stays small. */
function pack(folder) {
  const args = ['--ignore-scripts', '--json', '--pack-destination', folder]
  const [{ filename, files, size, unpackedSize }] = JSON.parse(npm(root, 'pack', ...args).stdout)
  const maps = files.filter((file) => file.path.endsWith('.map'))
  assert.deepEqual(maps, [])
  const isSmall = size <= packedBytesMax && unpackedSize <= unpackedBytesMax
  assert.ok(isSmall, `${size} bytes packed, ${unpackedSize} unpacked`)
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
      const lacking = await Promise.resolve(check(project))
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
      console.log(lacking === undefined ? `ok     ${name} (${seconds} s)` : `NOT RUN ${name}: ${lacking}`)
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
