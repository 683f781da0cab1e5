import { execFile } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Block } from './blocks.ts'

/** Programs lie inside the repository, so that `leasehold` means its own built code by package self-reference. */
const docsFolder = path.resolve('.build/docs')

const compilerOptions = {
  noEmit: false,
  rootDir: 'source',
  outDir: 'run',
  declaration: false,
  sourceMap: false,
  inlineSources: false,
  allowJs: true,
  checkJs: true,
  // Each block is a module of its own, also without an import.
  moduleDetection: 'force',
  noUnusedLocals: false,
  noUnusedParameters: false,
}

/** Writes the blocks down as programs in a folder and compiles them together. Resolves to the complaints about each. */
export async function compile(blocks: readonly Block[], folder = docsFolder): Promise<Map<Block, string[]>> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(path.join(folder, 'source'), { recursive: true })
  for (const block of blocks) {
    writeFileSync(path.join(folder, 'source', `${nameOf(block)}.${block.language}`), textOf(block, blocks))
  }
  const config = { extends: '../../tsconfig.json', compilerOptions, include: ['source'] }
  writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify(config))

  const output = await new Promise<string>((resolve) => {
    const args = [path.resolve('node_modules/typescript/bin/tsc'), '-p', folder, '--pretty', 'false']
    execFile(process.execPath, args, { cwd: folder }, (_error, stdout, stderr) => resolve(stdout + stderr))
  })
  // `source/README.md-42.ts(3,7): error …`; further lines of a complaint are indented.
  const complaints = output.split(/\n(?=\S)/).filter((text) => text.trim() !== '')
  const elsewhere = complaints.filter((text) => !text.startsWith('source/'))
  if (elsewhere.length > 0) throw new Error(elsewhere.join('\n'))
  return new Map(
    blocks.map((block) => [block, complaints.filter((text) => text.startsWith(`source/${nameOf(block)}.`))]),
  )
}

/** The compiled program of a block. */
export function programOf(block: Block): string {
  return path.join(docsFolder, 'run', `${nameOf(block)}.js`)
}

function nameOf({ file, line }: Block): string {
  return `${file.replaceAll('/', '+')}-${line}`
}

/** The text of a block; one marked `continues` has that of the program before it on the page in front. */
function textOf(block: Block, blocks: readonly Block[]): string {
  if (!block.marks.includes('continues')) return block.text
  const before = blocks.findLast(({ file, line }) => file === block.file && line < block.line)
  return before === undefined ? block.text : `${textOf(before, blocks)}\n${block.text}`
}
