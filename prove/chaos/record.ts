import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Report } from '../../bench/report.ts'
import { pictureOf } from './picture.ts'
import type { ChaosOutcome } from './run.ts'

/** A run as docs/proof keeps it. */
export interface RecordedRun {
  readonly date: string
  readonly commit: string
  readonly seed: number
  readonly ok: boolean
  readonly figures: Report['figures']
  readonly bars: Report['bars']
}

const page = 'docs/proof.md'
const begin = '<!-- chaos: written by npm run prove -- chaos … record -->'
const end = '<!-- end of chaos -->'

/** Writes a run to `.build/proof`, and if it `isKept` to docs/proof, beside the earlier ones of its store. */
export function record(
  store: string,
  seed: number,
  outcome: ChaosOutcome,
  { figures, bars }: Report,
  ok: boolean,
  isKept: boolean,
): void {
  const folder = isKept ? 'docs/proof' : '.build/proof'
  mkdirSync(folder, { recursive: true })
  const file = path.join(folder, `chaos-${store}.json`)
  const runs = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as RecordedRun[]) : []
  const date = new Date().toISOString().slice(0, 10)
  const commit = execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], { encoding: 'utf8' }).trim()
  runs.push({ date, commit, seed, ok, figures, bars })
  writeFileSync(file, `${JSON.stringify(runs, undefined, 2)}\n`)
  writeFileSync(path.join(folder, `chaos-${store}.svg`), pictureOf(store, seed, outcome))
  console.log(`Written to ${file}.`)
  if (isKept) writeTable(folder)
}

/** Rewrites the table of docs/proof.md from what is recorded. */
function writeTable(folder: string): void {
  const text = readFileSync(page, 'utf8')
  const [before = ''] = text.split(begin)
  const after = text.split(end)[1] ?? ''
  writeFileSync(page, `${before}${begin}\n\n${tableOf(folder)}\n\n${end}${after}`)
}

const stores = [
  'sqlite',
  'redis',
  'redis-cluster',
  'postgres',
  'mysql',
  'mongodb',
  'etcd',
  'nats',
  's3',
  'dynamodb',
  'quorum',
  'http',
]

function tableOf(folder: string): string {
  const heads = [
    'store',
    'runs',
    'operations',
    'holds',
    'faults',
    'violations',
    'lost, fenced',
    'lost, unfenced',
    'refused by the fence',
    'hand-over p50, p99 ms',
    'last waiter served after ms',
    'left',
    'date, commit, seeds',
  ]
  const total = { operations: 0, faults: 0 }
  const rows = stores.flatMap((store) => {
    const file = path.join(folder, `chaos-${store}.json`)
    if (!existsSync(file)) return []
    const runs = JSON.parse(readFileSync(file, 'utf8')) as RecordedRun[]
    const last = runs.at(-1)
    const sum = (title: string): number => runs.reduce((all, { figures }) => all + Number(figures[title] ?? 0), 0)
    const bar = (title: string): number => runs.reduce((all, run) => all + (run.bars[title]?.actual ?? 0), 0)
    const left = ['timers left', 'sockets left', 'locks left', 'files left'].reduce((all, title) => all + bar(title), 0)
    const worst = Math.max(...runs.map(({ bars }) => bars['last waiter served after ms']?.actual ?? 0))
    const handOver = ['hand-over p50 ms', 'hand-over p99 ms'].map((title) => Number(last?.figures[title]).toFixed(1))
    total.operations += sum('operations')
    total.faults += sum('faults')
    return [
      [
        `[${store}](proof/chaos-${store}.svg)`,
        runs.length,
        sum('operations'),
        sum('holds'),
        sum('faults'),
        bar('violations'),
        bar('updates lost with the fence'),
        bar('updates lost without a fence'),
        sum('writes that the fence refused'),
        handOver.join(', '),
        worst,
        left,
        `${last?.date ?? ''}, ${last?.commit ?? ''}, ${runs.map(({ seed }) => seed).join(' ')}`,
      ].map((cell) => (typeof cell === 'number' ? cell.toLocaleString('en-GB') : cell)),
    ]
  })
  const lines = [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`)
  return `${lines.join('\n')}\n\nAll stores: ${total.operations.toLocaleString('en-GB')} operations, ${total.faults.toLocaleString('en-GB')} faults.`
}
