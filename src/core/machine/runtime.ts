import { runtimeProcess } from './builtin.ts'

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
