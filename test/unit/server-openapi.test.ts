import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import { dashboard } from '../../src/server/operators.ts'
import { serve } from '../../src/server/index.ts'

/** The document is what programs in other languages are made from: a change of it must be seen in review. */
const expected: unknown = JSON.parse(readFileSync('test/unit/server-openapi.json', 'utf8'))

test('the OpenAPI document, with the routes of the dashboard, is as it was last agreed on', async () => {
  const server = await serve({ driver: memory(), port: 0, routes: dashboard() })
  onTestFinished(() => server.close())
  const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as { info: { version?: string } }
  delete document.info.version
  expect(document).toEqual(expected)
})
