// The published declarations, as users' compilers read them.
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { finished } from './project.mjs'

const folder = fileURLToPath(new URL('../../test/types', import.meta.url))
const names = readdirSync(folder).filter((name) => name.endsWith('.ts'))
/** The type tests, without those that need the clients' types. */
const files = Object.fromEntries(
  names
    .filter((name) => name !== 'clients.ts')
    .map((name) => [`types/${name}`, readFileSync(path.join(folder, name), 'utf8')]),
)
const clients = { 'types/clients.ts': readFileSync(path.join(folder, 'clients.ts'), 'utf8') }

const compilerOptions = {
  target: 'ES2022',
  lib: ['ES2023', 'ESNext.Disposable'],
  types: ['node'],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: false,
  noEmit: true,
}
const resolutions = {
  node: { module: 'NodeNext', moduleResolution: 'NodeNext' },
  bundler: { module: 'ESNext', moduleResolution: 'Bundler' },
}

/** What runs under Node and elsewhere, for a program without the types of Node. */
const elsewhere = `
import { createLocks, type Locks } from 'leasehold'
import { http } from 'leasehold/http'
import { memory } from 'leasehold/memory'
import { webLocks } from 'leasehold/web-locks'
export const locks: Promise<Locks> = createLocks({ driver: http({ url: 'https://locks.example.com', token: 'secret' }) })
export const manager = createLocks({ driver: memory() }).then(webLocks)
`

const nodeTypes = '@types/node@20.19.43'

export const rows = new Map([
  ...['5.4.5', '5.9.3', '7.0.2'].map((version) => [
    `typescript ${version}, in every module resolution`,
    (project) => {
      project.write({ ...files, 'elsewhere/locks.ts': elsewhere })
      project.install(`typescript@${version}`, nodeTypes)
      for (const [name, resolution] of Object.entries(resolutions)) compile(project, name, 'types', resolution)
      const web = { types: [], lib: ['ES2023', 'ESNext.Disposable', 'DOM'] }
      compile(project, 'elsewhere', 'elsewhere', { ...resolutions.bundler, ...web })
    },
  ]),
  [
    "typescript, beside the clients' own types",
    (project) => {
      project.write({ ...files, ...clients })
      const databases = [
        'ioredis@6.0.0',
        'redis@6.3.1',
        'mariadb@3.5.4',
        'mongodb@7.7.0',
        'mysql2@3.24.5',
        'pg@8.23.1',
        '@types/pg@8.23.1',
        'postgres@3.4.9',
      ]
      project.install('typescript@5.9.3', nodeTypes, ...databases)
      // What is wrong with the clients' declarations is not ours to check; ours are checked by the rows above.
      for (const [name, resolution] of Object.entries(resolutions)) {
        compile(project, name, 'types', { ...resolution, skipLibCheck: true })
      }
    },
  ],
])

/** Compiles a folder of the project, which must have no faults. */
function compile(project, name, include, options) {
  const config = `tsconfig.${name}.json`
  project.write({
    [config]: JSON.stringify({ compilerOptions: { ...compilerOptions, ...options }, include: [include] }),
  })
  finished(process.execPath, ['node_modules/typescript/bin/tsc', '-p', config, '--pretty', 'false'], project.folder)
}
