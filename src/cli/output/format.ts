import type { LockInfo } from '../../index.ts'
import { choiceOption, type OptionTable, type ParsedArguments } from '../arguments.ts'
import { UsageError } from '../exit-codes.ts'
import { lockJson } from './lock-json.ts'
import type { LockName } from './lock-name.ts'
import { printableJson } from './terminal-text.ts'
import { yamlDocument } from './yaml.ts'

const formats = ['wide', 'json', 'yaml', 'name'] as const

/** The options of commands that print locks. */
export const formatOptions = {
  output: { type: 'string', short: 'o', choices: formats },
  json: { type: 'boolean' },
} satisfies OptionTable

/** How locks are printed. */
export type Format = 'table' | (typeof formats)[number]

/** The help of `--output` and `--json`. */
export const formatHelp = `  -o, --output FORMAT wide: more columns; json, yaml: a document for each lock; name: names alone
  --json              the same as -o json: kind, name, key, held, waiting, holders, waiters on one line`

/** The format of the options. */
export function readFormat(given: ParsedArguments): Format {
  const format = choiceOption(given, 'output', formats)
  if (!given.flags.has('json')) return format ?? 'table'
  if (format === undefined || format === 'json') return 'json'
  throw new UsageError('Use --json or --output, not both.')
}

/** A lock as a document for programs. */
export function formatDocument(format: 'json' | 'yaml', called: LockName, lock: LockInfo): string {
  const document = lockJson(called, lock)
  return format === 'json' ? `${printableJson(document)}\n` : yamlDocument(document)
}
