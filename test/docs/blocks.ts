import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'

/** A fenced code block of a page. */
export interface Block {
  /** The page, from the root of the repository. */
  file: string
  /** The line of the opening fence, counted from 1. */
  line: number
  /** The first word after the fence: `ts`, `sh`, `text`. Empty when there is none. */
  language: string
  /** The words after it: `no-run`, `continues`. */
  marks: readonly string[]
  text: string
}

/** Every page whose code blocks must work. */
export function pages(): string[] {
  const top = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md'].filter((file) => existsSync(file))
  // What `npm run docs:build` writes of the declarations is checked with the site.
  const isOurs = (name: string): boolean => name.endsWith('.md') && !name.startsWith('reference')
  const below = readdirSync('docs', { recursive: true, encoding: 'utf8' }).filter(isOurs)
  return [...top, ...below.toSorted().map((name) => path.posix.join('docs', name.split(path.sep).join('/')))]
}

/** The fenced blocks of a page, in order. Blocks may be indented, as in a list. */
export function blocksOf(file: string, markdown = readFileSync(file, 'utf8')): Block[] {
  const blocks: Block[] = []
  let open: { fence: string; indent: string; block: Block; lines: string[] } | undefined

  for (const [index, line] of markdown.split('\n').entries()) {
    const [, indent = '', fence = '', info = ''] = /^(\s*)(`{3,}|~{3,})\s*(.*)$/.exec(line) ?? []
    if (open === undefined) {
      if (fence === '') continue
      const [language = '', ...marks] = info.trim().split(/\s+/)
      open = { fence, indent, lines: [], block: { file, line: index + 1, language, marks, text: '' } }
    } else if (fence.startsWith(open.fence) && info === '') {
      blocks.push({ ...open.block, text: `${open.lines.join('\n')}\n` })
      open = undefined
    } else {
      open.lines.push(line.startsWith(open.indent) ? line.slice(open.indent.length) : line)
    }
  }

  if (open !== undefined) throw new Error(`${file}:${open.block.line} opens a code block that never closes.`)
  return blocks
}
