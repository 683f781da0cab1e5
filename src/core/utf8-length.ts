import { builtin } from './machine/builtin.ts'

/** Node has it in a module too: among the globals of Jest's jsdom it is missing. */
const encoder = new (builtin('node:util')?.TextEncoder ?? TextEncoder)()

/** How many bytes a text takes. */
export function utf8Length(text: string): number {
  return encoder.encode(text).length
}
