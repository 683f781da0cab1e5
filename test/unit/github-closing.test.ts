import { expect, test } from 'vitest'
import { github } from '../../src/drivers/github/driver.ts'

test.each(['at once', 'when GitHub has been asked'])(
  'a driver that is closed while it opens, %s, does not wait for GitHub to answer',
  async (when) => {
    let asked: () => void = () => {}
    const isAsked = new Promise<void>((resolve) => (asked = resolve))
    const silent = (): Promise<never> => {
      asked()
      return new Promise(() => {})
    }
    const driver = github('acme/tasks', { token: 'secret', fetch: silent })
    const opening = expect(driver.open()).rejects.toMatchObject({ code: 'CLOSED' })
    if (when !== 'at once') await isAsked
    await driver.close()
    await opening
  },
  5000,
)

test('a second close settles with the first, and gives up nothing that the first waits for', async () => {
  const driver = github('acme/tasks', { token: 'secret', fetch: () => new Promise(() => {}) })
  const opening = expect(driver.open()).rejects.toMatchObject({ code: 'CLOSED' })
  const first = driver.close()
  expect(driver.close()).toBe(first)
  await Promise.all([first, opening])
})
