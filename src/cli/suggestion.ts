/** The known word that was probably meant, if one is near enough. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const mistakesMax = Math.max(1, Math.floor(word.length / 3))
  const near = known
    .map((candidate) => ({ candidate, mistakes: distance(word, candidate) }))
    .filter(({ mistakes }) => mistakes <= mistakesMax)
    .toSorted((one, other) => one.mistakes - other.mistakes)
  return near[0]?.candidate ?? known.find((candidate) => word.length > 1 && candidate.startsWith(word))
}

/** How many letters must be added, dropped or changed (Levenshtein). */
function distance(from: string, to: string): number {
  let above = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [row, letter] of [...from].entries()) {
    const current = [row + 1]
    for (let column = 1; column <= to.length; column += 1) {
      const changed = (above[column - 1] as number) + (letter === to[column - 1] ? 0 : 1)
      current.push(Math.min(changed, (above[column] as number) + 1, (current[column - 1] as number) + 1))
    }
    above = current
  }
  return above[to.length] as number
}
