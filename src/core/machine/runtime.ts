import type * as AsyncHooks from 'node:async_hooks'
import type * as Http from 'node:http'
import type * as Https from 'node:https'
import type * as Os from 'node:os'
import type * as Util from 'node:util'

/**
 * What a runtime has beyond the standards of the web. Node, Bun and Deno have Node's modules; a browser and an edge worker
 * have none. Nothing is imported here, so that a bundler for the browser finds no `node:`, and one build serves all.
 */

interface Builtins {
  'node:async_hooks': typeof AsyncHooks
  'node:http': typeof Http
  'node:https': typeof Https
  'node:os': typeof Os
  'node:util': typeof Util
}

/** The process we run in, as far as this runtime has one. */
export const runtimeProcess = (globalThis as { readonly process?: Partial<NodeJS.Process> }).process

/** A module of Node; undefined where the runtime has none, also where a substitute of `process` throws. */
export function builtin<Name extends keyof Builtins>(name: Name): Builtins[Name] | undefined {
  return permitted(() => runtimeProcess?.getBuiltinModule?.(name))
}

/** A variable of the environment; undefined where there is none, or where we may not read it. */
export function environmentVariable(name: string): string | undefined {
  return permitted(() => runtimeProcess?.env?.[name])
}

/** What `read` returns; undefined if it throws, as where Deno does not permit it. */
export function permitted<Value>(read: () => Value): Value | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** The object that all copies of this package in a realm share under a name; made by the first that needs it. */
export function oneInThisRealm<Shared extends object>(name: string, make: () => Shared): Shared {
  const shared = globalThis as unknown as Record<symbol, Shared | undefined>
  return (shared[Symbol.for(name)] ??= make())
}

/** The programs that run Leasehold. `Web`: a browser, or an edge worker. */
export type Runtime = 'Node' | 'Bun' | 'Deno' | 'Web'

/** The program that runs this process. Bun and Deno say that they are Node as well. */
export const runtime: Runtime = ((): Runtime => {
  const versions = runtimeProcess?.versions
  if (versions?.['bun'] !== undefined) return 'Bun'
  if (versions?.['deno'] !== undefined) return 'Deno'
  return versions?.node === undefined ? 'Web' : 'Node'
})()

/** The command that installs packages, such as `pg@8`, where this process runs. */
export function installCommand(packages: readonly string[], { dev = false, on = runtime } = {}): string {
  switch (on) {
    case 'Bun':
      return `bun add ${dev ? '--dev ' : ''}${packages.join(' ')}`
    case 'Deno':
      return `deno add ${dev ? '--dev ' : ''}${packages.map((each) => `npm:${each}`).join(' ')}`
    case 'Node':
    case 'Web':
      return `npm install ${dev ? '--save-dev ' : ''}${packages.join(' ')}`
  }
}
