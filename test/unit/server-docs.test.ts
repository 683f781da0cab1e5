import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { checkJwt } from '../../src/server/auth/jwt-options.ts'
import { checkTokens } from '../../src/server/auth/tokens.ts'

const blocks = [...readFileSync('docs/server.md', 'utf8').matchAll(/^```json\n([^]*?)^```/gm)].map(
  ([, text = '']) => JSON.parse(text) as unknown,
)

test('the tokens and the settings for JWTs that the page shows are taken as they stand', () => {
  const tokens = blocks.filter((block) => Array.isArray(block))
  const settings = blocks.filter((block) => Object.hasOwn(block as object, 'issuer'))
  expect(tokens).toHaveLength(2)
  expect(settings).toHaveLength(1)
  for (const block of tokens) expect(checkTokens(block)).toBe(block)
  for (const block of settings) expect(checkJwt(block)).toBe(block)
})
