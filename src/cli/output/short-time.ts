import { formatDuration } from '../../core/time/duration.ts'

/** A duration in words, with hundredths of a millisecond below 10 ms. */
export function shortTime(milliseconds: number): string {
  return milliseconds < 10 ? `${milliseconds.toFixed(2)} ms` : formatDuration(milliseconds)
}

/** A duration for a column, in one unit: `42s`, `17m`, `5h`, `3d`. */
export function ageText(milliseconds: number): string {
  const seconds = Math.floor(Math.max(0, milliseconds) / 1000)
  if (seconds < 120) return `${seconds}s`
  if (seconds < 2 * 3600) return `${Math.floor(seconds / 60)}m`
  return seconds < 48 * 3600 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`
}
