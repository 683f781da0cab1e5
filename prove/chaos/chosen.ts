/** One of several, by a number of the plan. */
export function chosen<Each>(all: readonly Each[], choice: number): Each {
  const each = all[choice % all.length]
  if (each === undefined) throw new Error('There is nothing to choose from.')
  return each
}
