/** Why a peer is ahead or a bar is missed, in the words of bench/page/reasons.md. */
import { advantageOf, isPeerRow, type PeerRow, type Row } from './rows.ts'

/** Reasons by heading: `redis-latency timeToRedlock`, or `embedded waitP99To_*` for all that begin like this. */
export type Reasons = ReadonlyMap<string, string>

/** Rows that share a reason, or a row that has none. */
interface Explained<Of extends Row> {
  readonly rows: readonly Of[]
  readonly reason?: string | undefined
}

export function readReasons(markdown: string): Reasons {
  const sections = markdown.split(/^## /m).slice(1)
  return new Map(
    sections.map((section) => {
      const [heading = '', ...lines] = section.split('\n')
      return [heading.trim(), lines.join(' ').replaceAll(/\s+/g, ' ').trim()]
    }),
  )
}

/** The heading of the reason for a row. */
export function headingFor({ bench, key }: Pick<Row, 'bench' | 'key'>, reasons: Reasons): string | undefined {
  const name = `${bench} ${key}`
  return [...reasons.keys()].find((heading) =>
    heading.endsWith('*') ? name.startsWith(heading.slice(0, -1)) : name === heading,
  )
}

/** Comparisons in which the peer is ahead: first libraries, then what is written by hand. */
export function behindOf(rows: readonly Row[], reasons: Reasons): readonly Explained<PeerRow>[] {
  const behind = rows.filter(isPeerRow).filter(isBehind)
  const byKind = (kind: PeerRow['peer']['kind']): PeerRow[] => behind.filter(({ peer }) => peer.kind === kind)
  return grouped([...byKind('library'), ...byKind('hand-written')], reasons)
}

/** Bars that were missed in some run, although no peer is ahead. */
export function missedOf(rows: readonly Row[], reasons: Reasons): readonly Explained<Row>[] {
  const missed = rows.filter((row) => (row.missed ?? 0) > 0)
  return grouped(
    missed.filter((row) => !(isPeerRow(row) && isBehind(row))),
    reasons,
  )
}

function isBehind(row: PeerRow): boolean {
  return advantageOf(row, row.actual) < 1
}

function grouped<Of extends Row>(rows: readonly Of[], reasons: Reasons): Explained<Of>[] {
  const groups = new Map<string, Of[]>()
  for (const row of rows) {
    const heading = headingFor(row, reasons) ?? `${row.bench} ${row.key}`
    groups.set(heading, [...(groups.get(heading) ?? []), row])
  }
  return [...groups].map(([heading, together]) => ({ rows: together, reason: reasons.get(heading) }))
}
