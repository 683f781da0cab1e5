import { describe, expect, test } from 'vitest'
import { redactedText, redactedUrl } from '../../src/core/contract/redaction.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { cliBench } from './support/cli-bench.ts'

const evil = '\u001b]0;owned\u0007\u001b[31m\u202e\r\n\u009b2J'

/** Anything that could steer a terminal, but for the ends of lines. */
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const steering = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2028\u2029]/

/** A lock that somebody wrote into the store without asking Leasehold, and one who waits for it. */
async function haunted(kind: string) {
  const { store, ...rest } = cliBench()
  const driver = memory({ name: store.replace('memory:', '') })
  await driver.open()
  const runner = { id: `id${evil}`, incarnation: '1', host: `host${evil}`, pid: 1, client: `c${evil}` }
  const metadata = { user: `user${evil}`, command: `command${evil}`, [`more${evil}`]: evil }
  const key = `default/${kind}:name${evil}`
  const claim = { key, mode: 'exclusive', priority: 0, wait: true, ttlMs: 600_000, graceMs: 0 } as const
  await driver.send([
    { op: 'claim', claim: { ...claim, id: 'one', runner: { ...runner, metadata } } },
    { op: 'claim', claim: { ...claim, id: 'two', runner: { ...runner, metadata } } },
  ])
  return { driver, ...rest }
}

describe.each(['named', 'path', `ki${evil}nd`])('text of strangers about a lock of kind %j', (kind) => {
  test.each([
    ['ls'],
    ['ls', '--json'],
    ['explain', `name${evil}`],
    ['evict', `name${evil}`, '--reason', evil, '--yes'],
    ['run', `name${evil}`, '--no-wait', '--', 'true'],
    ['ls', evil, evil],
    ['ls', `--${evil}`],
    ['run', evil, '--ttl', evil, '--', evil],
    [evil],
  ])('does not reach the terminal by %j', async (...args) => {
    const { driver, leasehold, shown } = await haunted(kind)
    await leasehold(...args)
    await driver.close()
    expect(`${shown.output}${shown.errors}`).not.toMatch(steering)
    expect(`${shown.output}${shown.errors}`).not.toBe('')
    if (args[0] === 'ls' && args.length === 1) expect(shown.output.split('\n')).toHaveLength(3)
  })
})

describe('a URL that is shown', () => {
  test.each([
    ['Redis://user:s3cret@host:1', 'Redis://***@host:1'],
    ['user:s3cret@host', '***@host'],
    ['redis:user:s3cret@host', '***@host'],
    ['redis://user:s3/cr@et@host:1/2', 'redis://***@host:1/2'],
    ['redis://user:s3?cret@host', 'redis://***@host'],
    ['redis://user:s3,cret:x@host', 'redis://***@host'],
    ['postgres://u:s3cret@h/db?schema=x&sslpassword=s3cret', 'postgres://***@h/db?schema=x&sslpassword=***'],
    ['quorum:http://s3cret@one,http://s3cret@two', 'quorum:http://***@one,http://***@two'],
    ['mongodb://u:s3cret@a:1,b:2/app', 'mongodb://***@a:1,b:2/app'],
    ['mysql://u:s3cret@h/app?table=a&ssl=s3cret', 'mysql://***@h/app?table=a&ssl=***'],
    ['github:owner/repo?token=s3cret', 'github:owner/repo?token=***'],
    ['redis://127.0.0.1:6379/0', 'redis://127.0.0.1:6379/0'],
    ['sqlite:/var/at@home.sqlite', 'sqlite:/var/at@home.sqlite'],
  ])('%s has no secrets: %s', (url, shown) => {
    expect(redactedUrl(url)).toBe(shown)
  })

  test('has none in the middle of a sentence either', () => {
    expect(redactedText('no answer from redis://u:s3cret@h:1/2 ("http://s3cret@x"); ask me@example.org')).toBe(
      'no answer from redis://***@h:1/2 ("http://***@x"); ask me@example.org',
    )
  })

  test.each([
    'Redis://user:s3cret@127.0.0.1:1',
    'user:s3cret@127.0.0.1',
    'redis://user:s3/cret@127.0.0.1:1',
    'redis://user:s3cret@127.0.0.1:1',
    'http://s3cret@127.0.0.1:1',
    'quorum:redis://a:s3cret@127.0.0.1:1,Redis://x:s3cret@127.0.0.1:2,redis://127.0.0.1:3',
    'mysqlx://u:s3cret@h',
    'github:o/r?token=s3cret&x',
  ])('has none in what any command says: %s', async (url) => {
    const { leasehold, shown } = cliBench()
    for (const args of [['doctor'], ['ls'], ['run', 'a', '--', 'true'], ['explain', 'a'], ['bench', '--for', '1ms']]) {
      await leasehold(...args, '--store', url)
    }
    // A word in the wrong place is shown again: a URL is known there by its slashes.
    if (url.includes('://')) await leasehold('run', 'a', url)
    expect(shown.errors).not.toMatch(/s3\/?cret/)
    expect(shown.output).not.toMatch(/s3\/?cret/)
  })
})
