/** The programs that run Leasehold. */
export type Runtime = 'Node' | 'Bun' | 'Deno'

/** The program that runs this process. Bun and Deno say that they are Node as well. */
export const runtime: Runtime = ((): Runtime => {
  if (process.versions['bun'] !== undefined) return 'Bun'
  return process.versions['deno'] === undefined ? 'Node' : 'Deno'
})()

/** The command that installs packages, such as `pg@8`, where this process runs. */
export function installCommand(packages: readonly string[], { dev = false, on = runtime } = {}): string {
  switch (on) {
    case 'Bun':
      return `bun add ${dev ? '--dev ' : ''}${packages.join(' ')}`
    case 'Deno':
      return `deno add ${dev ? '--dev ' : ''}${packages.map((each) => `npm:${each}`).join(' ')}`
    case 'Node':
      return `npm install ${dev ? '--save-dev ' : ''}${packages.join(' ')}`
  }
}
