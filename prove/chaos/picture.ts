import type { ChaosOutcome } from './run.ts'
import type { HoldSpan } from './round-history.ts'

/** What is drawn, each kind on a line of its own, and how many may hold it at once. */
const lines: readonly (readonly [title: string, belongs: (key: string) => boolean])[] = [
  ['fenced counter', (key) => key === 'fenced'],
  ['unfenced counter', (key) => key === 'unfenced'],
  ['8 mutexes', (key) => key.startsWith('mutex-')],
  ['readers, writers', (key) => key === 'book'],
  ['semaphore of 3', (key) => key === 'pool'],
  ['ranges', (key) => key === 'file'],
  ['conversions', (key) => key === 'converted'],
  ['leader, job', (key) => key === 'leader' || key === 'job'],
  ['2,000 locks', (key) => key.startsWith('many-')],
]

const left = 130
const width = 900
const lineHeight = 46
const faultTop = 24

/** How many held at each time of the last round, by kind of lock, and what happened meanwhile. */
export function pictureOf(store: string, seed: number, { picture }: ChaosOutcome): string {
  const { from, spans, faults } = picture
  const until = Math.max(from + 1, ...spans.map(({ to }) => to), ...faults.map(({ to }) => to))
  const x = (at: number): string => (left + ((at - from) / (until - from)) * width).toFixed(1)
  const faultHeight = faults.length * 11 + 8
  const height = faultTop + faultHeight + lines.length * lineHeight + 30
  const parts = faults
    .toSorted((a, b) => a.from - b.from)
    .map(({ kind, from: start, to }, index) => {
      const y = faultTop + index * 11
      const label =
        Number(x(start)) > left + width * 0.7
          ? `<text x="${Number(x(start)) - 4}" y="${y + 8}" text-anchor="end">`
          : `<text x="${Number(x(to)) + 4}" y="${y + 8}">`
      return `<rect x="${x(start)}" y="${y}" width="${Math.max(1.5, Number(x(to)) - Number(x(start))).toFixed(1)}" height="8" fill="#c2410c"/><rect x="${x(start)}" y="${faultTop + faultHeight}" width="${Math.max(1, Number(x(to)) - Number(x(start))).toFixed(1)}" height="${lines.length * lineHeight}" fill="#c2410c" opacity="0.07"/>${label}${escaped(kind)}</text>`
    })
  for (const [index, [title, belongs]] of lines.entries()) {
    const own = spans.filter(({ key }) => belongs(key))
    const bottom = faultTop + faultHeight + (index + 1) * lineHeight - 6
    const counts = countsOf(own, from, until)
    const most = Math.max(1, ...counts)
    const step = width / counts.length
    const points = counts.map(
      (count, place) =>
        `L${(left + place * step).toFixed(1)} ${(bottom - (count / most) * (lineHeight - 14)).toFixed(1)}H${(left + (place + 1) * step).toFixed(1)}`,
    )
    parts.push(
      `<text x="${left - 8}" y="${bottom - 12}" text-anchor="end">${escaped(title)}</text><text x="${left - 8}" y="${bottom}" text-anchor="end" fill="#666">at most ${most}</text><path d="M${left} ${bottom}${points.join('')}V${bottom}Z" fill="#1d4ed8" opacity="0.75"/>`,
    )
  }
  const seconds = Math.round((until - from) / 1000)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + width + 20} ${height}" font-family="sans-serif" font-size="10"><rect width="100%" height="100%" fill="#fff"/><text x="${left}" y="14" font-size="13">${escaped(store)}: holders over ${seconds} s, and faults (seed ${seed})</text>${parts.join('')}</svg>\n`
}

const columns = 450

/** The most holders at once, in each part of the time. */
function countsOf(spans: readonly HoldSpan[], from: number, until: number): number[] {
  const counts = Array.from({ length: columns }, () => 0)
  const place = (at: number): number => Math.min(columns - 1, Math.floor(((at - from) / (until - from)) * columns))
  const changes = spans
    .filter((span) => span.to > span.from)
    .flatMap((span) => [
      { at: span.from, by: 1 },
      { at: span.to, by: -1 },
    ])
    .toSorted((a, b) => a.at - b.at || a.by - b.by)
  let holders = 0
  let last = 0
  for (const { at, by } of changes) {
    const now = place(at)
    for (let column = last; column <= now; column += 1) counts[column] = Math.max(counts[column] ?? 0, holders)
    holders += by
    counts[now] = Math.max(counts[now] ?? 0, holders)
    last = now
  }
  return counts
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
