import { readFileSync } from 'node:fs'

/** An instruction of a Dockerfile, with its lines joined and its arguments filled in. */
export interface Instruction {
  readonly name: string
  /** `--from=build` as `from: 'build'`. */
  readonly flags: Readonly<Record<string, string>>
  readonly text: string
}

/** One `FROM` and what follows it. */
export interface Stage {
  readonly name: string
  readonly base: string
  readonly instructions: readonly Instruction[]
}

/** The stages of a Dockerfile, as far as ours goes: `ARG` with defaults, flags, exec form and shell form. */
export function stagesOf(file: string): Stage[] {
  const lines = readFileSync(file, 'utf8')
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line.trim() !== '')
  const stages: (Stage & { instructions: Instruction[] })[] = []
  const values = new Map<string, string>()
  for (const line of lines) {
    const instruction = instructionOf(line, values)
    const [, argument = '', value = ''] = /^(\w+)=(.*)$/.exec(instruction.text) ?? []
    if (instruction.name === 'ARG') values.set(argument, value.replaceAll('"', ''))
    else if (instruction.name === 'FROM') {
      const [base = '', , name = ''] = instruction.text.split(' ')
      stages.push({ name, base, instructions: [] })
    } else stages.at(-1)?.instructions.push(instruction)
  }
  return stages
}

function instructionOf(line: string, values: ReadonlyMap<string, string>): Instruction {
  const [name = '', ...words] = line.split(' ')
  const flags: Record<string, string> = {}
  while (words[0]?.startsWith('--')) {
    const [flag = '', value = ''] = (words.shift() ?? '').slice(2).split('=')
    flags[flag] = value
  }
  const text = words.join(' ').replaceAll(/\$\{(\w+)\}/g, (whole, argument: string) => values.get(argument) ?? whole)
  return { name, flags, text }
}

/** All instructions of a name, in order. */
export function allOf(stage: Stage, name: string): Instruction[] {
  return stage.instructions.filter((instruction) => instruction.name === name)
}

/** The words of an instruction in exec form, the last of its name. Throws if it is in another form. */
export function execForm(stage: Stage, name: string): string[] {
  const text = allOf(stage, name).at(-1)?.text.replace(/^CMD /, '') ?? 'nothing'
  return JSON.parse(text) as string[]
}

/** What `ENV` sets. */
export function environmentOf(stage: Stage): Record<string, string> {
  const words = allOf(stage, 'ENV').flatMap(({ text }) => text.split(/\s+/))
  return Object.fromEntries(words.map((word) => word.split(/=(.*)/).slice(0, 2) as [string, string]))
}

/** Whether a path of the repository gets into the build: the last pattern of .dockerignore that fits decides. */
export function isLetThrough(file: string, patterns = readFileSync('.dockerignore', 'utf8')): boolean {
  let isIgnored = false
  for (const line of patterns.split('\n').filter((each) => each !== '' && !each.startsWith('#'))) {
    const [isException, pattern] = line.startsWith('!') ? [true, line.slice(1)] : [false, line]
    const expression = pattern
      .replaceAll('.', String.raw`\.`)
      .replaceAll('**/', '<folders>')
      .replaceAll('*', '[^/]*')
      .replaceAll('<folders>', '(?:.*/)?')
    // A folder that fits stands for all that is in it.
    if (new RegExp(`^${expression}(?:/.*)?$`).test(file)) isIgnored = !isException
  }
  return !isIgnored
}
