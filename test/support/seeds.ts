/** All seeds from 1 to `most`, beginning with the one that found the fault when this was last looked at: finding it again is quick. */
export function* seedsFrom(first: number, most: number): Generator<number> {
  for (let seed = first; seed <= most; seed += 1) yield seed
  for (let seed = 1; seed < first; seed += 1) yield seed
}
