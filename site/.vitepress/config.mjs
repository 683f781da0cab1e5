import { cpSync, existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { writeForPrograms } from '../for-programs.ts'
import { linkedPictures, siteLink, slugOf } from '../links.ts'
import { sidebarOf } from '../sidebar.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const docs = path.join(root, 'docs')
const base = process.env.DOCS_BASE ?? '/'
const reference = path.join(docs, 'reference/sidebar.json')

const hero = {
  name: 'Leasehold',
  text: 'Locks across processes and machines',
  tagline:
    'For TypeScript. Each lock is renewed while you work, your code gets a signal to stop before another process gets the lock, and a fencing token lets your database refuse late writes.',
  actions: [
    { theme: 'brand', text: 'Get started', link: '/getting-started' },
    { theme: 'alt', text: 'Guides', link: '/guides/express' },
    { theme: 'alt', text: 'API', link: '/api' },
  ],
}
const features = [
  {
    title: 'In the store that you have',
    details:
      'Redis, PostgreSQL, MySQL, MongoDB, etcd, NATS, S3, DynamoDB, a SQLite file, GitHub Issues, a small server, or a majority of several.',
    link: '/stores/',
  },
  {
    title: 'Safe when things go wrong',
    details: 'Pauses, crashes, lost replies, failovers, clocks that jump: each promise has tests that cause the fault.',
    link: '/guarantees',
  },
  {
    title: 'A fair queue',
    details:
      'Higher priority first, then order of arrival. A released lock is passed on at once; a dead waiter is skipped.',
    link: '/concepts/hand-over',
  },
  {
    title: 'More than a mutex',
    details: 'Read/write locks, semaphores, elections, scheduled jobs, task queues, hand-off, deadlock detection.',
    link: '/primitives',
  },
  {
    title: 'Fast',
    details: 'Requests travel in batches. Every figure can be measured again, also those where others are faster.',
    link: '/benchmarks',
  },
  {
    title: 'See who holds what',
    details: 'A command line, a server with a live dashboard, Prometheus metrics, and sentences that say why you wait.',
    link: '/dashboard',
  },
]

/** The pages lie outside of this package, and find its Vue all the same. */
const vueOfThisPackage = {
  name: 'vue-of-this-package',
  enforce: 'pre',
  resolveId(id, importer, { ssr }) {
    // While pages are rendered, Node loads Vue from beside the bundle. Vite would look for it from docs/ and, as it is not there, bundle it.
    if (ssr && /^(?:vue|@vue\/[a-z-]+)(?:\/|$)/.test(id)) return { id, external: true }
    if (!/^vue(?:\/|$)/.test(id) || !importer?.startsWith(docs)) return null
    return this.resolve(id, path.join(root, 'site/package.json'), { skipSelf: true })
  },
}

export default defineConfig({
  lang: 'en',
  title: 'Leasehold',
  description: 'Distributed locks on leases for TypeScript, with fencing tokens and fair queues.',
  base,
  srcDir: '../docs',
  outDir: './dist',
  cacheDir: './node_modules/.cache/vitepress',
  rewrites: (file) => file.replace(/(?<=^|\/)README\.md$/, 'index.md'),
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${base}icon.svg` }]],
  markdown: {
    anchor: { slugify: slugOf },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark' },
    config(markdown) {
      // Nothing on a page is a template: `{{ … }}` is what Docker and GitHub Actions write. Code blocks are left alone anyway.
      const { rules } = markdown.renderer
      for (const name of ['text', 'code_inline']) {
        const render = rules[name]
        rules[name] = (...given) => render(...given).replaceAll('{{', '&#123;&#123;')
      }
      markdown.core.ruler.push('links-of-github', ({ tokens, env }) => {
        const page = path
          .relative(docs, env.realPath ?? env.path)
          .split(path.sep)
          .join('/')
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const name = token.type === 'link_open' ? 'href' : undefined
          if (name === undefined) continue
          const link = token.attrGet(name)
          if (link !== null) token.attrSet(name, siteLink(link, page, docs))
        }
      })
    },
  },
  vite: { plugins: [vueOfThisPackage] },
  transformPageData(page) {
    if (page.relativePath !== 'index.md') return
    page.frontmatter = { ...page.frontmatter, layout: 'home', hero, features }
  },
  themeConfig: {
    logo: { src: '/icon.svg', alt: '' },
    nav: [
      { text: 'Start', link: '/getting-started' },
      { text: 'Guides', link: '/guides/express' },
      { text: 'Stores', link: '/stores/' },
      { text: 'API', link: '/api' },
      { text: 'Guarantees', link: '/guarantees' },
    ],
    sidebar: [
      ...sidebarOf(docs),
      ...(existsSync(reference)
        ? [{ text: 'Generated reference', collapsed: true, items: JSON.parse(readFileSync(reference, 'utf8')) }]
        : []),
    ],
    outline: { level: [2, 3] },
    search: { provider: 'local', options: { detailedView: true } },
    socialLinks: [{ icon: 'github', link: 'https://github.com/leasehold/leasehold' }],
    editLink: { pattern: 'https://github.com/leasehold/leasehold/edit/main/docs/:path' },
    footer: { message: 'Released under the MIT licence.' },
  },
  buildEnd({ outDir }) {
    // For programs that read: the Markdown of each page, and lists of them.
    writeForPrograms(docs, outDir)
    for (const picture of linkedPictures(docs)) cpSync(path.join(docs, picture), path.join(outDir, picture))
  },
})
