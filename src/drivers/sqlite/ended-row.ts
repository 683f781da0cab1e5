import type { Ended } from '../../core/claim-record.ts'
import { shortRunner } from '../../core/short-runner.ts'
import { readRunner } from './claim-text.ts'
import type { Row, Value } from './database.ts'

/** Reads a row of `endings`. */
export function readEnded(row: Row): Ended {
  return {
    id: row['id'] as string,
    how: row['how'] as Ended['how'],
    detail: (row['detail'] as string | null) ?? undefined,
    fence: row['fence'] as number,
    runner: readRunner(row['key'] as string, row['runner'] as string),
    until: row['until'] as number,
    told: row['told'] === 1,
  }
}

/** The values of a row of `endings`, in the order of its columns, but for the key and the boot. */
export function endedValues({ until, id, how, detail, fence, told, runner }: Ended): Value[] {
  return [until, id, how, detail ?? null, fence, Number(told), shortRunner(runner)]
}
