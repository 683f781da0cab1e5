/** Checks the built site: every link inside it leads to a page that there is, and to an id on that page; no page is empty. */
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'

/** Where each dead link is and leads to. */
export function deadLinksOf(folder, base = '/') {
  const pages = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.html'))
  const texts = new Map(pages.map((page) => [page, readFileSync(path.join(folder, page), 'utf8')]))
  const ids = new Map(pages.map((page) => [page, idsOf(texts.get(page))]))
  const dead = []
  for (const page of pages.filter((each) => path.basename(each) !== '404.html')) {
    // What a page contains may keep it from being rendered, and nothing else says so.
    if (!texts.get(page).includes('<h1')) dead.push(`${page}: has no heading`)
    for (const link of linksOf(texts.get(page))) {
      const [file, heading = ''] = link.split('#')
      const target = targetOf(file, page, base)
      if (target === undefined) continue
      const isThere = ids.has(target) || existsSync(path.join(folder, target))
      const isOnPage = heading === '' || !ids.has(target) || ids.get(target).has(decodeURIComponent(heading))
      if (!isThere || !isOnPage) dead.push(`${page}: ${link}`)
    }
  }
  return dead
}

function linksOf(html) {
  return new Set([...html.matchAll(/<(?:a|img)\b[^>]*? (?:href|src)="([^"]*)"/g)].map(([, link]) => link))
}

function idsOf(html) {
  return new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id.replaceAll('&amp;', '&')))
}

/** The file of the site that a link means. */
function targetOf(link, page, base) {
  if (/^(?:[a-z]+:|\/\/)/i.test(link)) return undefined
  if (link === '') return page
  const whole = link.startsWith('/')
    ? link.startsWith(base) && link.slice(base.length)
    : path.posix.join(path.posix.dirname(page), link)
  if (whole === false) return `outside of ${base}`
  const file = whole.split('?')[0]
  if (file === '' || file.endsWith('/')) return `${file}index.html`
  return path.posix.extname(file) === '' ? `${file}.html` : file
}
