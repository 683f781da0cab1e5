import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { headingsOf } from '../../src/cli/inspect/lock-rows.ts'

const columns = headingsOf({ namespaces: false, wide: false, symbols: false })

/** What the pictures of the terminal must show, whatever the time was: `npm run docs:pictures` makes them anew. */
const shown = {
  ls: ['leasehold ls', ...columns, 'invoices/2026-11', '1 of 3', 'shared'],
  watch: ['leasehold watch', 'DEADLOCK over', '1 not renewed', ...columns, 's: sort (waiting)'],
  explain: [
    'leasehold explain',
    'DEADLOCK',
    'What to do',
    'leasehold evict',
    'not renewed: the holder is dead',
    'waited for',
  ],
}

describe.each(['light', 'dark'])('the picture for a %s page', (theme) => {
  test.each(Object.entries(shown))('of leasehold %s shows what the command prints today', (name, texts) => {
    const picture = readFileSync(`docs/pictures/${name}-${theme}.svg`, 'utf8')
    const text = picture.replaceAll(/<[^>]*>/g, ' ').replaceAll(/[\s\u00a0]+/g, ' ')
    expect(texts.filter((each) => !text.includes(each))).toEqual([])
    expect(readFileSync('docs/cli.md', 'utf8')).toContain(`pictures/${name}-${theme}.svg`)
  })
})
