import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** What a suite said: `broken` is code that does not run, which is no fault that a test has found. */
export interface SuiteResult {
  readonly outcome: 'passed' | 'failed' | 'broken' | 'timed out'
  /** The first test that failed, or what kept the suite from running. */
  readonly by: string
}

interface VitestReport {
  readonly numPassedTests: number
  readonly testResults: readonly {
    readonly status: string
    readonly message: string
    readonly assertionResults: readonly {
      readonly status: string
      readonly fullName: string
      readonly failureMessages: readonly string[] | null
    }[]
  }[]
}

const doesNotRun =
  /SyntaxError|ReferenceError|Transform failed|is not a function|error compiling script|compiling script|syntax error at|does not exist|attempt to (?:call|index|compare|perform)/i

/** Runs suites of one project, with a mutant planted or with none, until the first test fails. */
export async function runSuites(
  suites: readonly string[],
  mutant: string | undefined,
  withinMs: number,
): Promise<SuiteResult> {
  const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-mutant-'))
  const output = path.join(folder, 'report.json')
  const [project, files, title] = partsOf(suites)
  const options = [
    '--config',
    'prove/mutants/vitest.config.ts',
    '--project',
    project,
    '--bail',
    '1',
    '--maxWorkers',
    '1',
  ]
  const only = title === undefined ? [] : ['-t', title]
  const child = spawn(
    process.execPath,
    [
      'node_modules/vitest/vitest.mjs',
      'run',
      ...options,
      ...only,
      '--reporter',
      'json',
      '--outputFile',
      output,
      ...files,
    ],
    {
      cwd: root,
      env: { ...process.env, ...(mutant !== undefined && { LEASEHOLD_MUTANT: mutant }) },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    },
  )
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (piece: Buffer) => (printed = (printed + piece.toString()).slice(-4000)))
  let isLate = false
  const limit = setTimeout(() => {
    isLate = true
    // Vitest's workers and the servers that they started are in its group.
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  }, withinMs)
  await once(child, 'close')
  clearTimeout(limit)
  try {
    return isLate ? { outcome: 'timed out', by: `after ${withinMs / 1000} s` } : resultOf(output, printed)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The project, the files and the title that suites of one project name. */
function partsOf(suites: readonly string[]): readonly [string, readonly string[], string | undefined] {
  const parts = suites.map((suite) => {
    const [place = '', title] = suite.split(' > ')
    const [project = '', name = ''] = place.split('/')
    return { project, title, file: `test/${project === 'unit' ? 'unit' : 'integration'}/${name}.test.ts` }
  })
  return [parts[0]?.project ?? '', parts.map(({ file }) => file), parts[0]?.title]
}

function resultOf(output: string, printed: string): SuiteResult {
  let report: VitestReport
  try {
    report = JSON.parse(readFileSync(output, 'utf8')) as VitestReport
  } catch {
    return { outcome: 'broken', by: printed }
  }
  const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults)
  const failed = tests.find(({ status }) => status === 'failed')
  if (failed !== undefined) {
    const message = failed.failureMessages?.join('\n') ?? ''
    if (doesNotRun.test(message)) return { outcome: 'broken', by: `${failed.fullName}: ${message.slice(0, 1000)}` }
    return { outcome: 'failed', by: failed.fullName.trim() }
  }
  const broken = report.testResults.find(({ status }) => status === 'failed')
  if (broken !== undefined) return { outcome: 'broken', by: broken.message.slice(0, 1000) }
  if (report.numPassedTests === 0) return { outcome: 'broken', by: 'no test has run' }
  return { outcome: 'passed', by: '' }
}
