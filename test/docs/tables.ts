/** What the first columns of a page's tables name in code, by the heading of that column. Later tables add to earlier ones. */
export function tablesOf(markdown: string): Map<string, string[]> {
  const tables = new Map<string, string[]>()
  let names: string[] | undefined
  for (const line of markdown.split('\n')) {
    if (!line.startsWith('|')) {
      names = undefined
      continue
    }
    const first = line.split('|')[1]?.trim() ?? ''
    if (names === undefined) {
      names = tables.get(first) ?? []
      tables.set(first, names)
    } else {
      // Of `acquire(scope, options?)` the name is what stands before the bracket.
      for (const [, name = ''] of first.matchAll(/`([\w.-]+)[^`]*`/g)) names.push(name)
    }
  }
  return tables
}

/** Every word that stands in code somewhere on a page, in a sentence or in a block. */
export function wordsInCode(markdown: string): Set<string> {
  const code = [...markdown.matchAll(/^```[^]*?^```|`[^`\n]+`/gm)].map(([text]) => text)
  return new Set(code.flatMap((text) => text.match(/[\w-]+/g) ?? []))
}
