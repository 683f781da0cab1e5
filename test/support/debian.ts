import { execFileSync } from 'node:child_process'
import { accessSync, constants, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'

/** The file that a process locks while it runs apt. */
const turns = join(tmpdir(), 'leasehold-tests-apt.lock')

/** A server's program is not installed: the message says where it was searched and how to install it. */
export class MissingProgram extends Error {}

/** The path of a program, or undefined. `folders` are searched besides PATH, newest version last. */
export function findProgram(name: string, folders: readonly string[] = []): string | undefined {
  const places = [...folders.toReversed(), ...(process.env['PATH'] ?? '').split(delimiter)]
  return places.map((folder) => join(folder, name)).find(isExecutable)
}

/**
 * The path of a program, installed from Debian's packages if it is missing and we may: real servers in tests are what
 * the test command itself brings up.
 */
export function needProgram(name: string, packages: readonly string[], folders: readonly string[] = []): string {
  const found = findProgram(name, folders)
  if (found !== undefined) return found
  needPackages(name, packages)
  const installed = findProgram(name, folders)
  if (installed === undefined) throw new MissingProgram(`${packages.join(' ')} did not bring ${name}.`)
  return installed
}

/** Installs Debian's packages for something that is missing, if we may. */
export function needPackages(name: string, packages: readonly string[]): void {
  if (!mayInstall()) {
    throw new MissingProgram(
      `${name} is not installed. Install ${packages.join(' ')}, or run the tests as root on Debian.`,
    )
  }
  install(packages)
}

function install(packages: readonly string[]): void {
  const options = { stdio: 'ignore', env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } } as const
  // Test files that install at once take turns, and wait for any other apt.
  const apt = [turns, 'apt-get', '-o', 'DPkg::Lock::Timeout=120', '-o', 'Acquire::Retries=5', '-q', '-y']
  execFileSync('flock', [...apt, 'update'], options)
  execFileSync('flock', [...apt, 'install', '--no-install-recommends', ...packages], options)
}

function mayInstall(): boolean {
  if (process.getuid?.() !== 0) return false
  try {
    return /^ID(?:_LIKE)?=.*debian/m.test(readFileSync('/etc/os-release', 'utf8'))
  } catch {
    return false
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
