/** What the links of the Markdown in docs/ become on the site. They are written for GitHub, where a link names a file. */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { pagesIn } from './sidebar.ts'

const repository = 'https://github.com/leasehold/leasehold/blob/main'

/**
 * The link of a page as VitePress takes it. What lies outside docs/, or is no page or picture, is on GitHub.
 *
 * @param page The page with the link, below docs/: `stores/redis.md`.
 */
export function siteLink(link: string, page: string, docs: string): string {
  if (/^[a-z]+:|^[#/]/i.test(link)) return link
  const [file = '', heading] = link.split('#')
  const anchor = heading === undefined ? '' : `#${heading}`
  const target = path.posix.join('docs', path.posix.dirname(page), file)
  if (target === 'README.md' && heading === 'stores') return '/stores/'
  if (!target.startsWith('docs/')) return `${repository}/${target}${anchor}`
  if (target.endsWith('.md')) return `${file.replace(/(?<=^|\/)README\.md$/, 'index.md')}${anchor}`
  const isPicture = /\.(?:png|svg)$/.test(target) && existsSync(path.join(docs, '..', target))
  return isPicture ? link : `${repository}/${target}${anchor}`
}

/** The pictures that a page links to and does not show, below docs/: VitePress copies only those that it shows. */
export function linkedPictures(docs: string): string[] {
  const pictures = pagesIn(docs).flatMap((page) =>
    [
      ...readFileSync(path.join(docs, `${page}.md`), 'utf8').matchAll(/(?<!!)\[[^\]]*\]\(([^):#]+\.(?:png|svg))\)/g),
    ].map(([, link = '']) => path.posix.join(path.posix.dirname(page), link)),
  )
  return [...new Set(pictures)].filter((picture) => existsSync(path.join(docs, picture)))
}

/** The name by which a heading can be linked to, as GitHub makes it. */
export function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .trim()
    .replaceAll(/[^\p{Letter}\p{Number}_ -]/gu, '')
    .replaceAll(' ', '-')
}
