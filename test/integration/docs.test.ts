import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { blocksOf, pages, type Block } from '../docs/blocks.ts'
import { compile, programOf } from '../docs/program.ts'
import { complaintAboutNpm, runApart, withoutNpm } from '../docs/shell.ts'
import { needProgram } from '../support/debian.ts'

// Every code block of the docs works as printed. After the fence stands the language, then how the block is tested:
//   ts, js             type-checked and run             ts no-run      type-checked: needs a server
//   ts continues       run after the block before it    sh no-run      read by bash, not run
//   sh                 run by bash; lines that start with `npm ` are only checked to name real commands
//   json               parsed                           text           not tested
// Blocks marked `project` make a whole program in an empty folder: scripts/consumers/guides.mjs builds and runs it.
// Blocks in further languages are shown as they are, and listed in `shownOnly`.

// The page about the server shows how to call it by hand.
needProgram('curl', ['curl'])

const shownOnly = ['text', 'mermaid', 'http', 'yaml', 'toml', 'sql', 'lua', 'html', 'diff', 'nginx', 'python']
const blocks = pages().flatMap((page) => blocksOf(page))
const programs = blocks.filter(
  ({ language, marks }) => (language === 'ts' || language === 'js') && !marks.includes('project'),
)
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }

describe.each(pages())('%s', (page) => {
  const own = blocks.filter(({ file }) => file === page)
  let complaints: Map<Block, string[]>
  beforeAll(async () => {
    complaints = await compiled()
  })

  test('has code blocks that say their language', () => {
    const known = ['ts', 'js', 'sh', 'json', ...shownOnly]
    const unknown = own.filter(({ language }) => !known.includes(language))
    expect(unknown.map(({ line, language }) => `${page}:${line} "${language}"`)).toEqual([])
  })

  for (const block of own) {
    const runs = !block.marks.includes('no-run') && !block.marks.includes('project')
    const title = `${page}:${block.line} ${runs ? 'runs' : 'is well formed'}`

    if (programs.includes(block)) {
      test(title, async () => {
        expect(complaints.get(block)).toEqual([])
        if (runs) await expectSuccess(runApart(process.execPath, [programOf(block)]))
      })
    } else if (block.language === 'sh') {
      test(title, async () => {
        const lines = block.text.split('\n')
        const npm = lines.filter((line) => line.startsWith('npm '))
        expect(npm.map((line) => complaintAboutNpm(line, scripts)).filter((each) => each !== undefined)).toEqual([])
        const script = lines.map(withoutNpm).join('\n')
        const args = [...(runs ? [] : ['-n']), '-euo', 'pipefail', '-c', script]
        await expectSuccess(runApart('bash', args))
      })
    } else if (block.language === 'json') {
      test(`${page}:${block.line} parses`, () => expect(() => JSON.parse(block.text) as unknown).not.toThrow())
    }
  }
})

/** A block that failed says what it printed. */
async function expectSuccess(run: ReturnType<typeof runApart>) {
  const { ok, output } = await run
  expect(ok, output).toBe(true)
}

let compilation: Promise<Map<Block, string[]>> | undefined
/** Compiles once for all pages. */
function compiled() {
  compilation ??= compile(programs)
  return compilation
}
