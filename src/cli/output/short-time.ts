import { formatDuration } from '../../core/time/duration.ts'

/** How long something took, for people, with hundredths where they matter. */
export function shortTime(milliseconds: number): string {
  return milliseconds < 10 ? `${milliseconds.toFixed(2)} ms` : formatDuration(milliseconds)
}
