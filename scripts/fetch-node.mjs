// Brings a version of Node from npm, once, into node_modules/.cache, and prints where its program is:
//
//   node scripts/fetch-node.mjs 22.13.1
//
// It takes some seconds and 120 MB. Two processes may fetch the same version at once.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const cache = fileURLToPath(new URL('../node_modules/.cache/node-versions', import.meta.url))
const isWindows = process.platform === 'win32'
const programName = isWindows ? 'node.exe' : 'node'

/** The program of a version, such as 22.13.1. Throws if npm does not have it or cannot be reached. */
export function fetchNode(version) {
  const place = path.join(cache, version, 'bin')
  const program = path.join(place, programName)
  if (existsSync(program)) return program
  mkdirSync(cache, { recursive: true })
  const scratch = mkdtempSync(path.join(cache, '.fetch-'))
  try {
    const name = `node-${isWindows ? 'win' : process.platform}-${process.arch}@${version}`
    run('npm', ['pack', '--silent', name], scratch, name)
    run('tar', ['xzf', `${name.replace('@', '-')}.tgz`, `package/bin/${programName}`], scratch, name)
    keep(path.join(scratch, 'package'), path.join(cache, version))
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
  return program
}

/** Moves a folder to its place in one step. Another process may have been quicker. */
function keep(folder, place) {
  try {
    renameSync(folder, place)
  } catch (error) {
    if (!existsSync(place)) throw error
    cpSync(folder, place, { recursive: true, force: false })
  }
}

function run(command, args, cwd, name) {
  const { status, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8', shell: isWindows, timeout: 300_000 })
  if (status !== 0) throw new Error(`${name} could not be fetched from npm: ${command} ended with ${status}. ${stderr}`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(fetchNode(process.argv[2]))
