import { expect, test } from 'vitest'
import { claimOf, claiming } from '../support/claims.ts'
import { scratch } from '../sqlite/scratch.ts'

const { file, driver } = scratch()

test('waiters are counted up to a thousand more than the list shows', async () => {
  const store = await driver({ file: file() })
  const claims = Array.from({ length: 1301 }, (_, index) =>
    claimOf('crowded', { id: `claim ${index}`, ...(index % 2 === 1 && { range: { start: 0, end: 1 } }) }),
  )
  for (let from = 0; from < claims.length; from += 500) {
    await store.send(claims.slice(from, from + 500).map((claim) => claiming(claim)))
  }
  const [few] = (await store.list({ key: 'crowded', claims: 10 })).keys
  expect(few).toMatchObject({ held: 1, waiting: 1010 })
  const [many] = (await store.list({ key: 'crowded', claims: 1000 })).keys
  expect(many).toMatchObject({ held: 1, waiting: 1300 })
})
