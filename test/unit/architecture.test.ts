import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, test } from 'vitest'
import { stronglyConnected } from '../../src/core/rule/wait-for-graph.ts'

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

/** Which rooms of core a room may import, besides itself and the files beside the rooms. See their README.md. */
const coreRooms: Record<string, readonly string[]> = {
  machine: [],
  time: ['machine'],
  contract: ['machine', 'time'],
  rule: ['contract'],
  client: ['contract', 'time'],
  wire: ['contract', 'time'],
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

/** The imports of {@link importsOf} that are left when types are gone. */
function runTimeImportsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8')
  const statements = text.matchAll(/^(?:import|export)\s(?!type\b)([^'"`;]*?)\bfrom\s+'(\.{1,2}\/[^']+)'/gm)
  const sideEffects = text.matchAll(/^import()\s+'(\.{1,2}\/[^']+)'/gm)
  return [...statements, ...sideEffects]
    .filter(([, names = '']) => !/^\{(?:\s*type\b[^,}]*,?)+\s*\}\s*$/.test(names))
    .map(([, , specifier = '']) => path.posix.join(path.posix.dirname(file), specifier))
}

/** `api` for `src/api/client/acquirer.ts`, `index.ts` for `src/index.ts`. */
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

  test('every room of core says who lives there, and imports only the rooms it may', () => {
    const inCore = sources.filter((file) => partOf(file) === 'core')
    const roomOf = (file: string): string => file.split('/').slice(2, -1)[0] ?? ''
    const rooms = [...new Set(inCore.map(roomOf))].filter((room) => room !== '')
    expect(rooms.filter((room) => !existsSync(`src/core/${room}/README.md`))).toEqual([])
    const wrong = inCore.flatMap((file) => {
      const room = roomOf(file)
      const allowed = ['', room, ...(coreRooms[room] ?? [])]
      const imports = room === '' ? runTimeImportsOf(file) : importsOf(file)
      return imports.filter((target) => !allowed.includes(roomOf(target))).map((target) => `${file} imports ${target}`)
    })
    expect(wrong).toEqual([])
  })

  test('no modules import each other in a cycle at run time', () => {
    const componentOf = stronglyConnected(sources, (file) => runTimeImportsOf(file).filter((each) => existsSync(each)))
    const cycles = new Set([...componentOf.values()].filter((members) => members.length > 1))
    expect([...cycles].map((members) => members.toSorted().join(' '))).toEqual([])
  })
})

describe('names', () => {
  /** Names that stand for one thing in several files: entries of the package, W3C's own word, and a client that users bring. */
  const shared = new Set(['connect', 'LockInfo', 'IoredisClient', 'NodeRedisClient'])

  test('no exported name stands for two things', () => {
    const files = new Map<string, string[]>()
    for (const file of sources.filter((each) => !each.endsWith('-commonjs.ts'))) {
      const exported = readFileSync(file, 'utf8').matchAll(
        /^export (?:declare |abstract |async )*(?:class|interface|type|function\*?|const|let|enum) (\w+)/gm,
      )
      // Overloads of a function are one name.
      for (const name of new Set([...exported].map(([, found = '']) => found)))
        files.set(name, [...(files.get(name) ?? []), file])
    }
    expect(files.size).toBeGreaterThan(1000)
    expect([...files].filter(([name, places]) => places.length > 1 && !shared.has(name))).toEqual([])
  })
})

/** The rooms of src/api that a room may import at run time, besides itself; `options.ts` is open to all. Types may be of any room. */
const apiRooms: Record<string, readonly string[]> = {
  client: ['lease', 'owners', 'operators'],
  lease: ['client'],
  owners: ['lease'],
  operators: ['client'],
  primitives: ['client', 'lease', 'owners', 'operators'],
  heartbeat: ['stores'],
  stores: [],
}

describe('rooms of the api', () => {
  const files = sources.filter((file) => file.startsWith('src/api/'))
  const imports = new Map(
    files.map((file) => [file, runTimeImportsOf(file).filter((target) => files.includes(target))]),
  )

  /** `client` for `src/api/client/acquisition.ts`, undefined for what is published beside the rooms. */
  function roomOf(file: string): string | undefined {
    return file.split('/').length > 3 ? file.split('/')[2] : undefined
  }

  test('every room has its rule, and says at its door who lives there', () => {
    const rooms = [...new Set(files.map(roomOf))].filter((room) => room !== undefined)
    expect(rooms.toSorted()).toEqual(Object.keys(apiRooms).toSorted())
    expect(rooms.filter((room) => !existsSync(`src/api/${room}/README.md`))).toEqual([])
  })

  test('a room imports only the rooms it may', () => {
    const wrong = [...imports].flatMap(([file, targets]) => {
      const room = roomOf(file)
      if (room === undefined) return []
      const allowed = [room, ...(apiRooms[room] ?? [])]
      const isAllowed = (target: string): boolean =>
        target === 'src/api/options.ts' || allowed.includes(roomOf(target) ?? '')
      return targets.filter((target) => !isAllowed(target)).map((target) => `${file} imports ${target}`)
    })
    expect(wrong).toEqual([])
  })

  test('no file imports itself at run time, by whatever way round', () => {
    expect(imports.size).toBeGreaterThan(30)
    const reaches = (from: string, to: string, seen = new Set<string>()): boolean =>
      (imports.get(from) ?? []).some((target) => {
        if (target === to) return true
        if (seen.has(target)) return false
        seen.add(target)
        return reaches(target, to, seen)
      })
    expect(files.filter((file) => reaches(file, file))).toEqual([])
  })
})

// ---- the rooms of the server

/** Which rooms of the server a room may import, besides itself and `core`. Files at the top may import all of them. */
const serverRooms: Record<string, readonly string[]> = {
  contract: [],
  auth: ['contract', 'api'],
  audit: ['contract', 'auth', 'api'],
  store: ['contract', 'auth', 'audit', 'api', 'telemetry'],
  http: ['contract', 'auth', 'audit', 'store', 'api'],
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
