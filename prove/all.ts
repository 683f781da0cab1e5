/**
 * Every proof, one after another, each for its share of the given minutes (default 4), from a seed (default 1001) on.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { report, type Report } from '../bench/report.ts'

/** Each proof's share of the time. The rule is searched from the smallest scenes on, so more time shows more of the large. */
const shares = { rule: 0.4, client: 0.3, composition: 0.1, quorum: 0.1, github: 0.1 } as const

const [minutes = '4', firstSeed = '1001'] = process.argv.slice(2)
if (!(Number(minutes) > 0) || !Number.isSafeInteger(Number(firstSeed))) {
  console.error('Usage: npm run prove -- all [MINUTES] [FIRST SEED], e.g. npm run prove -- all 20 5000')
  process.exit(2)
}

const figures: Report['figures'] = {}
const bars: Report['bars'] = {}
for (const [name, share] of Object.entries(shares)) {
  const result = await prove(name, Number(minutes) * share)
  bars[`${name} ended with a result`] = { actual: result === undefined ? 0 : 1, atLeast: 1 }
  for (const [title, figure] of Object.entries(result?.figures ?? {})) figures[`${name} ${title}`] = figure
  for (const [title, bar] of Object.entries(result?.bars ?? {})) bars[`${name} ${title}`] = bar
}
report({ name: 'all', figures, bars })

/** Runs one proof as `npm run prove` would, prints its output, and parses the last line. */
async function prove(name: string, forMinutes: number): Promise<Report | undefined> {
  const file = fileURLToPath(new URL(`${name}.js`, import.meta.url))
  const child = spawn(process.execPath, [file, String(forMinutes), firstSeed], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  let result: Report | undefined
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith('RESULT ')) result = JSON.parse(line.slice('RESULT '.length)) as Report
    else if (line !== '') console.log(`${name}: ${line}`)
  }
  await ended
  return result
}
