/** Figures as the page writes them. */

/** Three significant digits at most, thousands apart. */
export function figure(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en-GB', { maximumSignificantDigits: 3 })
}

/** A factor: `3.2×`. */
export function times(factor: number): string {
  return `${Number(factor.toPrecision(factor < 2 ? 3 : 2)).toLocaleString('en-GB')}×`
}

/** `3.2× ahead`, `1.06× behind` or `level`. */
export function standing(advantage: number): string {
  const factor = times(Math.max(advantage, 1 / advantage))
  if (factor === times(1)) return 'level'
  return `${factor} ${advantage > 1 ? 'ahead' : 'behind'}`
}

/** `0.28`, or `0.26 to 0.31`. */
export function range(lowest: number, highest: number): string {
  const [low, high] = [figure(lowest), figure(highest)]
  return low === high ? low : `${low} to ${high}`
}

/** `18 November 2026`. */
export function day(date: string): string {
  return new Date(date).toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' })
}
