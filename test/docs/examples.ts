import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { Block } from './blocks.ts'

/** The declaration files of dist that the exports of package.json lead to. */
export function publishedDeclarations(): string[] {
  const { exports } = JSON.parse(readFileSync('package.json', 'utf8')) as { exports: unknown }
  const reached = new Set<string>()
  const reach = (file: string): void => {
    if (reached.has(file)) return
    reached.add(file)
    for (const specifier of importsOf(readFileSync(file, 'utf8'))) {
      if (specifier.startsWith('.')) reach(declarationOf(path.posix.join(path.posix.dirname(file), specifier)))
    }
  }
  for (const entry of declarationsIn(exports)) reach(path.posix.normalize(entry))
  return [...reached].toSorted()
}

/** What a declaration file imports or exports on: `'./lease.ts'`, `'node:http'`. */
export function importsOf(text: string): string[] {
  const code = text.replaceAll(/\/\*\*[^]*?\*\//g, '')
  return [...code.matchAll(/\b(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g)].map(([, specifier = '']) => specifier)
}

/** What every example has, but where it makes its own. */
export const inHand: Block = {
  file: 'in-hand',
  line: 1,
  language: 'd.ts',
  marks: [],
  text: "declare const locks: import('leasehold').Locks\ndeclare const lease: import('leasehold').Lease\n",
}

/** The `@example` blocks of a declaration file. */
export function examplesOf(file: string): Block[] {
  const text = readFileSync(file, 'utf8')
  return [...text.matchAll(/@example[^\S\n]*\n\s*\* ```ts\n([^]*?)\s*\* ```\n/g)].map((match) => ({
    file,
    line: text.slice(0, match.index).split('\n').length,
    language: 'ts',
    marks: [],
    text: `${(match[1] ?? '').replaceAll(/^\s*\* ?/gm, '')}\n`,
  }))
}

/** Every path of a declaration file in `exports`, under whatever conditions. */
function declarationsIn(exports: unknown): string[] {
  if (typeof exports === 'string') return /\.d\.c?ts$/.test(exports) ? [exports] : []
  return typeof exports === 'object' && exports !== null ? Object.values(exports).flatMap(declarationsIn) : []
}

function declarationOf(file: string): string {
  return file.replace(/(?<!\.d)\.([cm]?)[jt]s$/, '.d.$1ts')
}
