import { readFileSync } from 'node:fs'
import path from 'node:path'

/** The names that a module exports, of values and types, those of `export type * from` included. */
export function exportsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8')
  const listed = [...text.matchAll(/^export (?:type )?\{([^}]+)\}/gm)].flatMap(([, names = '']) => names.split(','))
  const own = [
    ...text.matchAll(/^export (?:declare |abstract |async )*(?:class|const|function|interface|type) (\w+)/gm),
  ]
  const whole = [...text.matchAll(/^export (?:type )?\* from '(.+)'/gm)]
  return [
    ...listed.map((name) => name.replace(/^\s*type /, '').trim()).filter((name) => name !== ''),
    ...own.map(([, name = '']) => name),
    ...whole.flatMap(([, from = '']) => exportsOf(path.posix.join(path.posix.dirname(file), from))),
  ]
}

/** What users see of a class or an interface, by name. Members marked `@internal` are not shown, nor those of symbols. */
export function membersOf(file: string, name: string): string[] {
  const members: string[] = []
  let comment = ''
  for (const line of bodyOf(file, new RegExp(`^(?:export )?(?:class|interface) ${name}\\b[^]*?\\{$`, 'm'))) {
    if (/^ {2}(?:\/\*\*| \*)/.test(line)) {
      comment += line
      continue
    }
    const member =
      /^ {2}(?:(?:async|declare|get|override|readonly) )*(?:'(?<quoted>[^']+)'|(?<word>\w+))[?!]?(?:[(<:;]| =)/.exec(
        line,
      )
    const found = member?.groups?.['quoted'] ?? member?.groups?.['word']
    if (found !== undefined && found !== 'constructor' && !comment.includes('@internal')) members.push(found)
    comment = ''
  }
  return [...new Set(members)]
}

/** The texts that a type allows, or the names that an object of constants has. */
export function choicesOf(file: string, name: string): string[] {
  const text = readFileSync(file, 'utf8').replaceAll(/\/\*\*[^]*?\*\//g, '')
  const union = new RegExp(`^export type ${name} =([^]*?)\\n(?:\\n|$)`, 'm').exec(text)?.[1]
  if (union !== undefined) return [...union.matchAll(/'([^']+)'/g)].map(([, choice = '']) => choice)
  const lines = bodyOf(file, new RegExp(`^export const ${name} = \\{$`, 'm'))
  return lines.flatMap((line) => /^ {2}(\w+):/.exec(line)?.[1] ?? [])
}

/** The lines between the opening that matches and the brace that ends it, at the beginning of a line. */
function bodyOf(file: string, opening: RegExp): string[] {
  const text = readFileSync(file, 'utf8')
  const match = opening.exec(text)
  if (match === null) throw new Error(`${file} has nothing that matches ${opening.source}.`)
  const rest = text.slice(match.index + match[0].length)
  return rest.slice(0, rest.search(/^\}/m)).split('\n')
}
