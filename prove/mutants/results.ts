import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { grouped } from './rooms.ts'

/** The last result of each mutant. */
const resultsFile = fileURLToPath(new URL('../../../docs/proof/mutants.json', import.meta.url))

export interface MutantResult {
  readonly room: string
  readonly name: string
  readonly file: string
  readonly outcome: 'found' | 'SURVIVED' | 'equivalent' | 'broken' | 'timed out'
  /** The suite and test that found it, or why it is equivalent. */
  readonly by: string
  readonly seconds: number
}

export function readResults(): readonly MutantResult[] {
  return existsSync(resultsFile) ? (JSON.parse(readFileSync(resultsFile, 'utf8')) as MutantResult[]) : []
}

/** Keeps a result, in the order of the names, with those of mutants that are still planted. */
export function saveResult(result: MutantResult, names: readonly string[]): void {
  const results = new Map([...readResults(), result].map((each) => [each.name, each]))
  const kept = names.flatMap((name) => results.get(name) ?? [])
  writeFileSync(resultsFile, `${JSON.stringify(kept, null, 2)}\n`)
}

/** Whether a test has found the mutant, or it is argued that none can. */
export function isGood(outcome: MutantResult['outcome']): boolean {
  return outcome === 'found' || outcome === 'equivalent'
}

/** The page that shows every mutant and what found it. */
export function mutantsPage(results: readonly MutantResult[], planned: number): string {
  const byRoom = [...grouped(results, ({ room }) => room)]
  const counted = byRoom.map(([room, of]) => {
    const count = (outcome: MutantResult['outcome']): number => of.filter((result) => result.outcome === outcome).length
    const left = count('SURVIVED') + count('broken') + count('timed out')
    return `| ${room} | ${of.length} | ${count('found')} | ${count('equivalent')} | ${left} |`
  })
  const found = results.filter(({ outcome }) => outcome === 'found').length
  return `# Planted faults

\`npm run prove -- mutants\` changes one place of the source at a time, as a test loads it, and runs the suites that must
find it. First, the same suites must pass without any change.

The table has ${planned} faults; ${results.length} have been planted so far, and ${found} of them are found.

| room | planted | found | equivalent | left |
| --- | --- | --- | --- | --- |
${counted.join('\n')}

${byRoom.map(([room, of]) => roomSection(room, of)).join('\n\n')}

This page is written by the command. The table of faults is \`prove/mutants/\`; a unit test (\`mutants\`) checks that each still
has its place.
`
}

function roomSection(room: string, results: readonly MutantResult[]): string {
  const rows = results.map(({ name, file, outcome, by }) => {
    const shown = outcome === 'found' ? by : `**${outcome}**: ${by.split('\n')[0]}`
    return `| ${inCell(name)} | \`${path.basename(file)}\` | ${inCell(shown)} |`
  })
  return `## ${room}\n\n| fault | in | found by |\n| --- | --- | --- |\n${rows.join('\n')}`
}

function inCell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('*', '\\*')
}
