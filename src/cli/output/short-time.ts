import { formatDuration } from '../../core/time/duration.ts'

/** A duration in words, with hundredths of a millisecond below 10 ms. */
export function shortTime(milliseconds: number): string {
  return milliseconds < 10 ? `${milliseconds.toFixed(2)} ms` : formatDuration(milliseconds)
}
