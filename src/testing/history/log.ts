import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import { monotonicMs } from '../../core/machine/machine-clock.ts'
import type { HistoryEvent } from './event.ts'

/** An event whose time is filled in when it is written down. */
export type Untimed = HistoryEvent extends infer Event
  ? Event extends HistoryEvent
    ? Omit<Event, 'at'> & { at?: number }
    : never
  : never

/** Where a process writes its part of a history. */
export interface HistoryLog extends Disposable {
  write(event: Untimed): void
}

/** Appends events to a file, a line each, written before `write` returns: a kill -9 loses at most half a line. */
export function historyLog(file: string): HistoryLog {
  const descriptor = openSync(file, 'a')
  return {
    write: (event) => void writeSync(descriptor, `${JSON.stringify({ at: monotonicMs(), ...event })}\n`),
    [Symbol.dispose]: () => closeSync(descriptor),
  }
}

/** Reads the logs of several processes into one history, sorted by time. A torn last line is left out. */
export function readHistory(files: readonly string[]): HistoryEvent[] {
  return files.flatMap(readLog).toSorted((a, b) => a.at - b.at)
}

function readLog(file: string): HistoryEvent[] {
  const lines = readFileSync(file, 'utf8').split('\n')
  // After the last line break there is nothing, or the half of a line that a killed process left.
  lines.pop()
  return lines.map((line) => JSON.parse(line) as HistoryEvent)
}
