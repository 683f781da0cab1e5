import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { pages } from '../docs/blocks.ts'

/** A page without its code blocks, in which nothing is a link or a heading. */
function proseOf(page: string): string {
  return readFileSync(page, 'utf8').replaceAll(/^ *```[^]*?^ *```/gm, '')
}

/** Where the links of a page lead inside the repository: a file, and perhaps a heading in it. */
function targetsOf(page: string): { readonly link: string; readonly file: string; readonly heading: string }[] {
  const links = [...proseOf(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
  return links
    .filter((link) => !/^[a-z]+:/.test(link))
    .map((link) => {
      const [file = '', heading = ''] = link.split('#')
      return { link, file: file === '' ? page : path.posix.join(path.posix.dirname(page), file), heading }
    })
}

/** The names by which headings can be linked to, as GitHub makes them. */
function headingsOf(page: string): string[] {
  return [...proseOf(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{Letter}\p{Number}_ -]/gu, '')
      .replaceAll(' ', '-'),
  )
}

describe.each([...pages(), 'CHANGELOG.md'])('%s', (page) => {
  const targets = targetsOf(page)

  test('links to what is there', () => {
    const broken = targets.filter(({ file, heading }) => {
      if (!existsSync(file)) return true
      return heading !== '' && file.endsWith('.md') && !headingsOf(file).includes(heading)
    })
    expect(broken.map(({ link }) => link)).toEqual([])
  })
})
