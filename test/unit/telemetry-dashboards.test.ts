import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { ServerMetrics } from '../../src/server/store/metrics.ts'
import type { Family } from '../../src/telemetry/exposition.ts'
import { countedEvents, gauges, timings } from '../../src/telemetry/measures.ts'
import { prometheus } from '../../src/telemetry/prometheus.ts'
import { askedBy } from '../support/promql.ts'
import { locksBench } from './support/bench-of-locks.ts'

interface Panel {
  readonly id: number
  readonly title: string
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[]
}

const grafana = JSON.parse(readFileSync('deploy/grafana-dashboard.json', 'utf8')) as {
  readonly panels: readonly Panel[]
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly query: string | { query: string } }[]
  }
}
const { groups } = parse(readFileSync('deploy/prometheus-rules.yaml', 'utf8')) as {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly alert: string
      readonly expr: string
      readonly annotations: Record<string, string>
    }[]
  }[]
}
const rules = groups.flatMap((group) => group.rules)

/** The labels of each series that a scrape may have, by its name. */
async function exported(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const locks = await locksBench().client()
  const lease = await locks.acquire('a')
  const metrics = prometheus(locks)
  const server = new ServerMetrics()
  server.callAnswered('/v1/requests', 200, 1)
  server.requestAnswered('claim', 'held')
  server.refused('rate')
  server.quotaRefused('claims')
  server.dropped('unread')
  server.rateLimited('token', 'a')
  const families = [...(await metrics.families()), ...server.families({ withTokens: true })]
  await lease.release()
  metrics[Symbol.dispose]()
  return new Map(families.flatMap(seriesOf))
}

function seriesOf({ name, type, samples }: Family): [string, ReadonlySet<string>][] {
  // Prometheus adds these to every series that it scrapes.
  const labels = new Set(['instance', 'job', ...samples.flatMap((sample) => Object.keys(sample.labels))])
  if (type !== 'histogram') return [[name, labels]]
  return [
    [`${name}_bucket`, new Set([...labels, 'le'])],
    [`${name}_sum`, labels],
    [`${name}_count`, labels],
  ]
}

/** What of a query, and of the texts beside it, is not exported. */
function unknownIn(
  known: ReadonlyMap<string, ReadonlySet<string>>,
  query: string,
  ...texts: readonly string[]
): string[] {
  const { metrics, labels } = askedBy(query)
  expect(metrics.length).toBeGreaterThan(0)
  const shown = texts.flatMap((text) =>
    [...text.matchAll(/\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}/g)].map(([, name = '']) => name),
  )
  const unknown = metrics.filter((name) => !known.has(name))
  const foreign = metrics.flatMap((name) =>
    [...labels, ...shown]
      .filter((label) => known.get(name)?.has(label) === false)
      .map((label) => `${label} of ${name}`),
  )
  return [...unknown, ...foreign]
}

test('Grafana asks for metrics and labels that are exported, and each panel has an id of its own', async () => {
  const known = await exported()
  const unknown = grafana.panels.flatMap(({ targets }) =>
    targets.flatMap(({ expr, legendFormat }) => unknownIn(known, expr, legendFormat)),
  )
  expect(unknown).toEqual([])
  expect(new Set(grafana.panels.map(({ id }) => id)).size).toBe(grafana.panels.length)
  const [, name = '', label = ''] = /label_values\((\w+), (\w+)\)/.exec(JSON.stringify(grafana.templating)) ?? []
  expect(known.get(name)?.has(label)).toBe(true)
})

test('alert rules ask for metrics and labels that are exported', async () => {
  const known = await exported()
  const unknown = rules.flatMap(({ expr, annotations }) => unknownIn(known, expr, ...Object.values(annotations)))
  expect(unknown).toEqual([])
  expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length)
})

test('a metric or a label that is not exported is found', async () => {
  const known = await exported()
  expect(unknownIn(known, 'rate(leasehold_gained_total[5m])')).toEqual(['leasehold_gained_total'])
  expect(unknownIn(known, 'sum by (lock) (leasehold_up)')).toEqual(['lock of leasehold_up'])
  expect(unknownIn(known, 'leasehold_up{store="a"}', 'of {{ $labels.host }}')).toEqual([
    'store of leasehold_up',
    'host of leasehold_up',
  ])
  expect(() => askedBy('rate(leasehold_up[5m]')).toThrow(/no PromQL/)
})

describe('docs/metrics.md', () => {
  const page = readFileSync('docs/metrics.md', 'utf8')

  test('has every name, kind and unit of OpenTelemetry', () => {
    const rows = [
      ...countedEvents.map(({ name, unit }) => [name, 'counter', unit]),
      ...Object.values(timings).map(({ name, unit }) => [name, 'histogram', unit]),
      ...Object.values(gauges).map(({ name, unit }) => [name, 'gauge', unit]),
    ]
    const missing = rows.filter(
      ([name, kind, unit]) => !page.includes(`| \`leasehold.${name}\` | ${kind} | \`${unit}\` |`),
    )
    expect(missing).toEqual([])
    expect(page.match(/^\| `leasehold\.[a-z_]+` \| (?:counter|histogram|gauge) \|/gm)).toHaveLength(rows.length)
  })
})
