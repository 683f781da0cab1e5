/** Writes llms.txt, a list of the pages, and llms-full.txt, all of their text (https://llmstxt.org). */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pagesIn, sidebarOf } from './sidebar.ts'

const introduction = [
  '# Leasehold',
  '> Distributed locks on leases for TypeScript, with fencing tokens and fair queues, over Redis, PostgreSQL, MySQL, MongoDB, etcd, NATS, S3, DynamoDB, SQLite, GitHub Issues or a server.',
  'Hold a lock with `locks.run(name, body)`. Pass `lease.fence` with every write, and stop when `lease.signal` aborts.',
]

/** Beside the built pages: the Markdown of each, llms.txt and llms-full.txt. */
export function writeForPrograms(docs: string, folder: string): void {
  for (const page of pagesIn(docs)) {
    const copy = path.join(folder, `${page}.md`)
    mkdirSync(path.dirname(copy), { recursive: true })
    copyFileSync(path.join(docs, `${page}.md`), copy)
  }
  const files = sidebarOf(docs).map(({ text, items }) => ({
    heading: text,
    pages: items.map(({ text: title, link }) => {
      const file = `${link.slice(1)}${link.endsWith('/') ? 'README' : ''}.md`
      return { title, file, text: readFileSync(path.join(docs, file), 'utf8') }
    }),
  }))
  const lists = files.map(({ heading, pages }) => {
    const lines = pages.map(({ title, file, text }) => `- [${title}](${file}): ${summaryOf(text)}`)
    return `## ${heading}\n\n${lines.join('\n')}`
  })
  writeFileSync(path.join(folder, 'llms.txt'), `${[...introduction, ...lists].join('\n\n')}\n`)
  const whole = files.flatMap(({ pages }) => pages.map(({ file, text }) => `<!-- ${file} -->\n\n${text.trim()}\n`))
  writeFileSync(path.join(folder, 'llms-full.txt'), whole.join('\n'))
}

/** The first sentence of a page, without its links. */
export function summaryOf(page: string): string {
  const paragraphs = page.replaceAll(/^```[^]*?^```/gm, '').split(/\n{2,}/)
  const prose = paragraphs.find((each) => !/^\s*(?:[#|<!]|$)/.test(each)) ?? ''
  const plain = prose.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/\s+/g, ' ')
  return (/^.*?[.:](?= |$)/.exec(plain)?.[0] ?? plain).replace(/:$/, '.')
}
