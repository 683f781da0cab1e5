/** Vitest as `npm test` has it, with the mutant planted that LEASEHOLD_MUTANT names; without it, with none. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { mergeConfig } from 'vitest/config'
import ours from '../../vitest.config.ts'
import { planted } from './mutant.ts'
import { mutantNamed } from './rooms.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const name = process.env['LEASEHOLD_MUTANT']

/** A module of the source: as it is, or embedded by scripts/embed.mjs. */
function loaded(id: string): string | undefined {
  if (name === undefined) return undefined
  const mutant = mutantNamed(name)
  const file = path.join(root, mutant.file)
  const isEmbedded = !file.endsWith('.ts')
  if (id.split('?')[0] !== (isEmbedded ? `${file}.generated.ts` : file)) return undefined
  const text = planted(name, mutant, readFileSync(file, 'utf8'))
  return isEmbedded ? `export default ${JSON.stringify(text)}\n` : text
}

export default mergeConfig(ours, { root, plugins: [{ name: 'plant-a-mutant', enforce: 'pre', load: loaded }] })
