/** The known word that was probably meant, if one is near enough. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const mistakesMax = Math.max(1, Math.floor(word.length / 3))
  const near = known
    .map((candidate) => ({ candidate, mistakes: distance(word, candidate) }))
    .filter(({ mistakes }) => mistakes <= mistakesMax)
    .toSorted((one, other) => one.mistakes - other.mistakes)
  return near[0]?.candidate ?? known.find((candidate) => word.length > 1 && candidate.startsWith(word))
}

/** How many letters must be added, dropped, changed or swapped with their neighbour. */
function distance(from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_, column) => column)]
  const mistakesAt = (row: number, column: number): number => rows[row]?.[column] ?? Infinity
  for (let row = 1; row <= from.length; row += 1) {
    rows.push([row])
    for (let column = 1; column <= to.length; column += 1) {
      const isSame = from[row - 1] === to[column - 1]
      const isSwapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      const mistakes = Math.min(
        mistakesAt(row - 1, column) + 1,
        mistakesAt(row, column - 1) + 1,
        mistakesAt(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwapped ? mistakesAt(row - 2, column - 2) + 1 : Infinity,
      )
      rows[row]?.push(mistakes)
    }
  }
  return mistakesAt(from.length, to.length)
}
