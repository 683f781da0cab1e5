/**
 * Packages that only some users need: a store's client, a test tool. Leasehold does not depend on them, so that users of
 * one store never have to deal with the client of another. Each is found, and its version checked, when it is used.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { LeaseholdError, messageOf } from '../errors.ts'
import { importPackage, ownLocation } from './module-loading.ts'
import { installCommand } from './runtime.ts'

/** A package, and the versions of it that fit. */
export interface OptionalPackage<Name extends string = string> {
  readonly name: Name
  /** The major versions that fit, oldest first, each with its first minor version if that is not 0: `['6.11', '7']`. */
  readonly fits: readonly [string, ...string[]]
}

/** What was found of a package. */
type Found = { readonly module: unknown } | { readonly unfit: string } | undefined

/** Loads the first of several packages that is installed in a version that fits. `user` names in errors what needs it. */
export async function loadFirst<Name extends string>(
  user: string,
  packages: readonly [OptionalPackage<Name>, ...OptionalPackage<Name>[]],
): Promise<{ readonly name: Name; readonly module: unknown }> {
  const unfit: string[] = []
  for (const wanted of packages) {
    const found = await find(wanted)
    if (found === undefined) continue
    if ('module' in found) return { name: wanted.name, module: found.module }
    unfit.push(found.unfit)
  }
  throw missing(user, packages.map(described).join(', or '), unfit, commandFor(packages.slice(0, 1)))
}

/** Loads several packages, all of which are needed. `user` names in errors what needs them. */
export async function loadAll(user: string, packages: readonly OptionalPackage[]): Promise<readonly unknown[]> {
  const found = await Promise.all(packages.map(find))
  const modules = found.flatMap((each) => (each !== undefined && 'module' in each ? [each.module] : []))
  if (modules.length === packages.length) return modules
  const unfit = found.flatMap((each) => (each !== undefined && 'unfit' in each ? [each.unfit] : []))
  throw missing(user, packages.map(described).join(', '), unfit, commandFor(packages))
}

async function find({ name, fits }: OptionalPackage): Promise<Found> {
  const version = installedVersion(name)
  if (version !== undefined && !fits.some((each) => isWithin(version, each))) return { unfit: `${name} ${version}` }
  try {
    return { module: await importPackage(name) }
  } catch (error) {
    if (isMissing(name, error)) return undefined
    throw new LeaseholdError('UNAVAILABLE', `${name} is installed, and fails when it is loaded: ${messageOf(error)}`, {
      reason: 'configuration',
      cause: error,
    })
  }
}

/** Whether the package itself is missing. If one of its dependencies is, the error names that. */
function isMissing(name: string, error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return false
  const lacking = /^(?:Cannot|Could not) find (?:package|module) '([^']+)'/.exec(messageOf(error))?.[1]
  return lacking === undefined || lacking === name
}

/** Undefined if the package is not installed, or not in a folder called `node_modules`: then its version is not checked. */
function installedVersion(name: string): string | undefined {
  const here = ownLocation()
  if (!here.startsWith('file:')) return undefined
  for (const folder of foldersUp(path.dirname(fileURLToPath(here)))) {
    try {
      const text = readFileSync(path.join(folder, 'node_modules', name, 'package.json'), 'utf8')
      const { version } = JSON.parse(text) as { readonly version?: unknown }
      return typeof version === 'string' ? version : undefined
    } catch {
      // Not in this folder.
    }
  }
  return undefined
}

/** The folder and all folders above it, innermost first. */
function foldersUp(folder: string): readonly string[] {
  const parent = path.dirname(folder)
  return parent === folder ? [folder] : [folder, ...foldersUp(parent)]
}

/** Whether a version such as `7.2.0` has the major version of `7` or `7.1`, and at least its minor version. */
function isWithin(version: string, lowest: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [lowestMajor = 0, lowestMinor = 0] = lowest.split('.').map(Number)
  return major === lowestMajor && minor >= lowestMinor
}

/** `redis ^4.6, ^5 or ^6` */
function described({ name, fits }: OptionalPackage): string {
  const ranges = fits.map((lowest) => `^${lowest}`)
  const last = ranges.pop()
  return ranges.length === 0 ? `${name} ${last}` : `${name} ${ranges.join(', ')} or ${last}`
}

function commandFor(packages: readonly OptionalPackage[]): string {
  const newest = packages.map(({ name, fits }) => `${name}@${fits.at(-1)?.split('.')[0]}`)
  return installCommand(newest)
}

function missing(user: string, wanted: string, unfit: readonly string[], command: string): LeaseholdError {
  const installed =
    unfit.length === 0 ? '' : `, and ${unfit.join(' and ')} ${unfit.length === 1 ? 'is' : 'are'} installed`
  return new LeaseholdError('UNAVAILABLE', `${user} needs ${wanted}${installed}. Run: ${command}`, {
    reason: 'configuration',
  })
}
