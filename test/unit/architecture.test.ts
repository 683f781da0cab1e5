import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, test } from 'vitest'

/** Which parts of src a part may import, besides itself. A request flows one way: `api → core ← drivers`. */
const mayImport: Record<string, readonly string[]> = {
  'index.ts': ['api', 'exports.ts'],
  'exports.ts': ['api', 'core'],
  core: [],
  api: ['core'],
  drivers: ['core'],
  // The file guard uses the SQLite driver's binding: the lock of a SQLite file is the only one Node has for files.
  guards: ['core', 'drivers'],
  'web-locks': ['api', 'core'],
  telemetry: ['api', 'core', 'index.ts'],
  dashboard: ['api', 'core'],
  server: ['api', 'core', 'dashboard', 'telemetry', 'index.ts'],
  cli: ['api', 'core', 'server', 'dashboard', 'index.ts'],
  edge: ['api', 'core', 'drivers'],
  web: ['api', 'core', 'drivers', 'exports.ts'],
  testing: ['api', 'core', 'drivers', 'web-locks', 'index.ts'],
}

/** The one place that turns a connection URL into a driver, and so the only one outside drivers that knows them. */
const connectsDrivers = /^src\/api\/stores\/connect-driver\.ts$/

/** A concept may take this much. A file is never split to meet the number. */
const linesPerFileMax = 450

interface Target {
  readonly types: string
  readonly default: string
}

const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as {
  exports: Record<string, string | { module?: Target; import: Target; require: Target }>
  typesVersions: { '*': Record<string, readonly string[]> }
}

const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .map((name) => path.posix.join('src', name.split(path.sep).join('/')))
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.generated.ts'))

/** Relative imports of a file, as paths from the root of the repository. */
function importsOf(file: string): string[] {
  const specifiers = readFileSync(file, 'utf8').matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'(\.{1,2}\/[^']+)'/g)
  return [...specifiers].map(([, specifier = '']) => path.posix.join(path.posix.dirname(file), specifier))
}

/** `core` for `src/api/client/waiter.ts`, `index.ts` for `src/index.ts`. */
function partOf(file: string): string {
  return file.split('/')[1] ?? ''
}

describe('imports', () => {
  test('every folder of src has a place in the picture', () => {
    const parts = new Set(sources.map(partOf))
    expect([...parts].filter((part) => !(part in mayImport))).toEqual([])
  })

  test('imports point from api to core and from drivers to core, never back', () => {
    const wrong = sources.flatMap((file) => {
      const part = partOf(file)
      const allowed = [part, ...(mayImport[part] ?? []), ...(connectsDrivers.test(file) ? ['drivers'] : [])]
      return importsOf(file)
        .filter((target) => !allowed.includes(partOf(target)))
        .map((target) => `${file} imports ${target}`)
    })
    expect(wrong).toEqual([])
  })
})

// ---- the rooms of the server

/** Which rooms of the server a room may import, besides itself and `core`. Files at the top may import all of them. */
const serverRooms: Record<string, readonly string[]> = {
  contract: [],
  auth: ['contract'],
  store: ['contract', 'api', 'telemetry'],
  http: ['contract', 'auth', 'store', 'api'],
  routes: ['contract', 'auth', 'store', 'telemetry'],
  operators: ['contract', 'auth', 'store', 'api', 'dashboard'],
}

describe('the rooms of the server', () => {
  const files = sources.filter((file) => /^src\/server\/[^/]+\//.test(file))
  const roomOf = (file: string): string => (partOf(file) === 'server' ? (file.split('/')[2] ?? '') : partOf(file))

  test('each says at its door who lives there', () => {
    const rooms = [...new Set(files.map(roomOf))]
    expect(rooms.toSorted()).toEqual(Object.keys(serverRooms).toSorted())
    expect(rooms.filter((room) => !existsSync(`src/server/${room}/README.md`))).toEqual([])
  })

  test('import only what their README says', () => {
    const wrong = files.flatMap((file) => {
      const allowed = [roomOf(file), 'core', ...(serverRooms[roomOf(file)] ?? [])]
      return importsOf(file)
        .filter((target) => !allowed.includes(roomOf(target)))
        .map((target) => `${file} imports ${target}`)
    })
    expect(wrong).toEqual([])
  })
})

describe('files', () => {
  test('no file is named after nothing', () => {
    expect(sources.filter((file) => /(?:^|\/)(?:utils?|helpers?|common)\.ts$/.test(file))).toEqual([])
  })

  test(`no source file is longer than ${linesPerFileMax} lines`, () => {
    const long = sources
      .map((file) => ({ file, lines: readFileSync(file, 'utf8').trimEnd().split('\n').length }))
      .filter(({ lines }) => lines > linesPerFileMax)
    expect(long).toEqual([])
  })
})

describe('exports', () => {
  const drivers = sources
    .filter((file) => /^src\/drivers\/[^/]+\/driver\.ts$/.test(file))
    .map((file) => path.posix.basename(path.posix.dirname(file)))

  test('one name serves a driver, its export and its page', () => {
    const missing = drivers.flatMap((name) => [
      ...(`./${name}` in manifest.exports ? [] : [`package.json lacks the export "./${name}"`]),
      ...(name === 'memory' || existsSync(`docs/stores/${name}.md`) ? [] : [`docs/stores/${name}.md is missing`]),
    ])
    expect(missing).toEqual([])
  })

  test('every export of the package has its source', () => {
    const missing = Object.entries(manifest.exports).flatMap(([subpath, target]) => {
      if (typeof target === 'string') return existsSync(target) ? [] : [`${subpath}: ${target}`]
      const name = subpath === '.' ? 'index' : subpath.slice(2)
      const source = target.require.types.replace(/^\.\/dist\/types\//, 'src/').replace(/\.d\.ts$/, '.ts')
      const types = target.require.types.replace(/\.ts$/, '.mts')
      // TypeScript's node10 knows no exports.
      const isKnownByItsName = subpath === '.' || manifest.typesVersions['*'][name]?.[0] === target.require.types
      const leads = { import: { types, default: `./dist/node/${name}.mjs` }, require: `./dist/node/${name}.js` }
      const isRight = isDeepStrictEqual({ import: target.import, require: target.require.default }, leads)
      const forBundlers = { types, default: `./dist/bundler/${name}.js` }
      const isBundled = name === 'testing' || isDeepStrictEqual(target.module, forBundlers)
      return sources.includes(source) && isKnownByItsName && isRight && isBundled ? [] : [`${subpath}: ${source}`]
    })
    expect(missing).toEqual([])
  })
})
