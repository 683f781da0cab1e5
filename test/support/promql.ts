/** What a query in Prometheus' language asks for, read by the parser of Prometheus' own editor. */
import { parser } from '@prometheus-io/lezer-promql'

export interface AskedSeries {
  readonly metrics: readonly string[]
  /** Labels that are matched or grouped by. */
  readonly labels: readonly string[]
}

/** Throws if the query cannot be parsed. Grafana's variables stand for what they are replaced with. */
export function askedBy(query: string): AskedSeries {
  const plain = query.replaceAll('$__rate_interval', '5m')
  const metrics: string[] = []
  const labels: string[] = []
  parser.parse(plain).iterate({
    enter(node) {
      const text = plain.slice(node.from, node.to)
      if (node.type.isError) throw new Error(`${query} is no PromQL, at ${node.from}: ${text}`)
      const isIn = (parent: string): boolean => node.node.parent?.name === parent
      if (node.name === 'Identifier' && isIn('VectorSelector')) metrics.push(text)
      if (node.name === 'LabelName') labels.push(text)
    },
  })
  return { metrics, labels }
}
