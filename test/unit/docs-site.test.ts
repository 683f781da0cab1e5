import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { deadLinksOf } from '../../scripts/docs/dead-links.mjs'
import { summaryOf } from '../../site/for-programs.ts'
import { linkedPictures, siteLink, slugOf } from '../../site/links.ts'
import { linkTo, pagesIn, sidebarOf } from '../../site/sidebar.ts'
import { blocksOf } from '../docs/blocks.ts'
import { folderForTest } from '../support/test-folder.ts'

const pages = pagesIn('docs')
const index = readFileSync('docs/README.md', 'utf8')

describe('the sidebar', () => {
  const listed = sidebarOf('docs').flatMap(({ items }) => items.map(({ link }) => link))

  test('has every page once, and no other', () => {
    const others = pages.filter((page) => page !== 'README')
    expect(listed.toSorted()).toEqual(others.map(linkTo).toSorted())
  })

  test('has no group for pages without a place', () => {
    expect(sidebarOf('docs').find(({ text }) => text === 'More')?.items ?? []).toEqual([])
  })
})

test('the index of docs/ names every page, but for the decisions and the appendices', () => {
  const apart = /^(?:README|decisions\/\d|benchmarks\/)/
  // A page may be indexed by its folder's own page.
  const missing = pages.filter((page) => !apart.test(page) && !index.includes(`(${page}.md)`))
  expect(missing).toEqual([])
})

test('a link that is written for GitHub leads to the site, or to GitHub where the site has no such page', () => {
  const links = [
    ['../practices.md#names', 'stores/redis.md', '../practices.md#names'],
    ['../decisions/README.md', 'stores/redis.md', '../decisions/index.md'],
    ['README.md#guides', 'getting-started.md', 'index.md#guides'],
    ['../README.md#stores', 'api.md', '/stores/'],
    ['../ARCHITECTURE.md', 'README.md', 'https://github.com/leasehold/leasehold/blob/main/ARCHITECTURE.md'],
    [
      'benchmarks/results.json',
      'benchmarks.md',
      'https://github.com/leasehold/leasehold/blob/main/docs/benchmarks/results.json',
    ],
    ['dashboard.png', 'dashboard.md', 'dashboard.png'],
    ['https://etcd.io', 'stores/etcd.md', 'https://etcd.io'],
    ['#install', 'stores/etcd.md', '#install'],
  ] as const
  for (const [link, page, expected] of links) expect(siteLink(link, page, 'docs'), link).toBe(expected)
})

test('pictures that a page links to come with the site, and pictures in HTML have addresses that VitePress finds', () => {
  expect(linkedPictures('docs')).toEqual(expect.arrayContaining(['proof/chaos-redis.svg', 'proof/chaos-http.svg']))
  const addresses = pages.flatMap((page) =>
    [...readFileSync(`docs/${page}.md`, 'utf8').matchAll(/<(?:img|source)\b[^>]*\b(?:src|srcset)="([^"]*)"/g)].map(
      ([, address = '']) => address,
    ),
  )
  expect(addresses.length).toBeGreaterThan(3)
  expect(addresses.filter((address) => !/^(?:\.{1,2}\/|https:)/.test(address))).toEqual([])
})

test('headings have the names that GitHub gives them', () => {
  expect(slugOf('What happens when …')).toBe('what-happens-when-')
  expect(slugOf('01x · SQLite: `node:sqlite`')).toBe('01x--sqlite-nodesqlite')
})

test('llms.txt says in one sentence what a page is about', () => {
  expect(summaryOf('# A\n\nLocks in [Redis](https://redis.io) or\nValkey: one server. More.\n')).toBe(
    'Locks in Redis or Valkey.',
  )
})

test.each(pages.filter((page) => page.startsWith('guides/')))(
  'docs/%s.md has a program, and says what it prints',
  (page) => {
    const blocks = blocksOf(`docs/${page}.md`)
    expect(blocks.filter(({ marks }) => marks.includes('project')).length).toBeGreaterThan(1)
    expect(blocks.filter(({ language, marks }) => language === 'text' && marks.includes('output'))).not.toEqual([])
    const text = readFileSync(`docs/${page}.md`, 'utf8')
    expect(text).toContain('## What can go wrong')
    expect(text).toMatch(/\]\(\.\.\/guards\.md/)
  },
)

test('the site loads nothing from elsewhere, and its tools are pinned', () => {
  expect(readFileSync('site/.vitepress/theme/index.js', 'utf8')).toContain('theme-without-fonts')
  expect(readFileSync('site/.vitepress/theme/style.css', 'utf8')).not.toMatch(/@import|url\(/)
  const { devDependencies } = JSON.parse(readFileSync('site/package.json', 'utf8')) as {
    readonly devDependencies: Readonly<Record<string, string>>
  }
  for (const version of Object.values(devDependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/)
  expect(existsSync('site/package-lock.json')).toBe(true)
})

test('the check of the built site finds missing pages, missing headings and pages that were not rendered', () => {
  const folder = folderForTest('docs-site')
  mkdirSync(path.join(folder, 'stores'))
  const write = (file: string, text: string): void => writeFileSync(path.join(folder, file), text)
  write(
    'index.html',
    '<h1>Home</h1><a class="x" href="/stores/redis.html#install">Redis</a><a href="https://redis.io">Redis</a>',
  )
  write('stores/redis.html', '<h1>Redis</h1><h2 id="install"></h2><a href="../index.html">Home</a>')
  expect(deadLinksOf(folder, '/')).toEqual([])
  write(
    'stores/etcd.html',
    '<a href="redis.html#options">1</a><a href="./gone.html">2</a><a href="/stores/redis">3</a>',
  )
  expect(deadLinksOf(folder, '/')).toEqual([
    'stores/etcd.html: has no heading',
    'stores/etcd.html: redis.html#options',
    'stores/etcd.html: ./gone.html',
  ])
})
