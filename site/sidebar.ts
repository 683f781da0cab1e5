/** The order of the pages on the site. Pages that nobody has put in order come last in the group of their folder. */
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'

export interface SidebarGroup {
  readonly text: string
  readonly collapsed?: boolean
  readonly items: readonly SidebarItem[]
}

export interface SidebarItem {
  readonly text: string
  /** As the site addresses it: `/stores/redis`. */
  readonly link: string
}

interface Group {
  readonly text: string
  /** Every page of this folder belongs here. */
  readonly folder?: string
  readonly collapsed?: boolean
  /** In this order, if there is such a page: below docs/, without `.md`. */
  readonly pages: readonly string[]
}

const groups: readonly Group[] = [
  { text: 'Start', pages: ['getting-started', 'practices', 'troubleshooting', 'coming-from', 'migrating', 'glossary'] },
  {
    text: 'Concepts',
    folder: 'concepts',
    pages: ['lease-and-fence', 'hand-over', 'losing-a-lock', 'quorum'].map((name) => `concepts/${name}`),
  },
  {
    text: 'Guides',
    folder: 'guides',
    pages: [
      'express',
      'fastify',
      'nestjs',
      'nextjs',
      'testing',
      'serverless',
      'bun-deno',
      'cron',
      'queues',
      'kubernetes',
      'coding-agents',
    ].map((name) => `guides/${name}`),
  },
  {
    text: 'Stores',
    folder: 'stores',
    pages: [
      'README',
      'sqlite',
      'redis',
      'postgres',
      'postgres-advisory',
      'mysql',
      'mongodb',
      'etcd',
      'nats',
      's3',
      'dynamodb',
      'github',
      'http',
      'quorum',
      'memory',
      'document',
    ].map((name) => `stores/${name}`),
  },
  { text: 'Reference', pages: ['api', 'primitives', 'guards', 'cli', 'web-locks', 'metrics', 'runtimes'] },
  { text: 'Server', pages: ['server', 'deploying', 'dashboard'] },
  {
    text: 'Evidence',
    pages: ['guarantees', 'proof', 'proof-spec', 'proof-mutants', 'benchmarks', 'benchmarks/notebook', 'growth'],
  },
  { text: 'Decisions', folder: 'decisions', collapsed: true, pages: ['decisions/README'] },
]

/** Folders whose pages are not for readers, or are written by a program. */
const apart = /^(?:reference|public)\//

/** Every page below docs/, without `.md`. */
export function pagesIn(docs: string): string[] {
  return readdirSync(docs, { recursive: true, encoding: 'utf8' })
    .map((file) => file.split(path.sep).join('/'))
    .filter((file) => file.endsWith('.md') && !apart.test(file))
    .map((file) => file.slice(0, -'.md'.length))
    .toSorted()
}

/** How the site addresses a page. */
export function linkTo(page: string): string {
  return `/${page.replace(/(?<=^|\/)README$/, '')}`
}

/** The first heading of a page, without code marks. */
export function titleOf(docs: string, page: string): string {
  const heading = /^# (.+)$/m.exec(readFileSync(path.join(docs, `${page}.md`), 'utf8'))?.[1] ?? page
  return heading.replaceAll('`', '')
}

export function sidebarOf(docs: string): SidebarGroup[] {
  const left = new Set(pagesIn(docs))
  left.delete('README')
  const ordered = groups.map((group) => {
    const named = group.pages.filter((page) => existsSync(path.join(docs, `${page}.md`)))
    for (const page of named) left.delete(page)
    return { group, named }
  })
  const filled = ordered.map(({ group, named }) => {
    const others = [...left].filter((page) => group.folder !== undefined && page.startsWith(`${group.folder}/`))
    for (const page of others) left.delete(page)
    return itemsOf(docs, group.text, [...named, ...others], group.collapsed)
  })
  const more = left.size > 0 ? [itemsOf(docs, 'More', [...left])] : []
  return [...filled, ...more].filter(({ items }) => items.length > 0)
}

function itemsOf(docs: string, text: string, pages: readonly string[], collapsed?: boolean): SidebarGroup {
  const items = pages.map((page) => ({ text: titleOf(docs, page), link: linkTo(page) }))
  return { text, items, ...(collapsed !== undefined && { collapsed }) }
}
