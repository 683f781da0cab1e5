import { S3Client } from '@aws-sdk/client-s3'
import { AwsV4Signer } from 'aws4fetch'
import { assert, asyncProperty, nat, string } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readFault, readListing } from '../../src/drivers/s3/answers.ts'
import { s3 } from '../../src/drivers/s3/driver.ts'
import { namePrefix, objectName } from '../../src/drivers/s3/object-names.ts'
import { bucketAddress, s3Options } from '../../src/drivers/s3/options.ts'
import { signedHeaders } from '../../src/drivers/s3/signature.ts'
import { connect } from '../../src/index.ts'

const credentials = { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }

describe('a signature', () => {
  const urls = [
    'https://locks.s3.eu-central-1.amazonaws.com/leasehold/keys/a_2Fb~0',
    'http://127.0.0.1:9000/locks/?encoding-type=url&list-type=2&max-keys=50&prefix=a%20b%2Fkeys%2F&start-after=%C3%A4',
    'https://locks.s3.amazonaws.com/?versioning=',
    'https://locks.s3.amazonaws.com/a%20b%28c%29%2A/keys/%F0%9F%94%92',
  ]

  test.each(urls.flatMap((url) => [undefined, 'token/+='].map((sessionToken) => [url, sessionToken] as const)))(
    'of %s is the one that aws4fetch makes, with token %s',
    async (url, sessionToken) => {
      const date = new Date('2026-11-19T21:45:00.123Z')
      const body = '{"fence":1,"name":"ä"}'
      const headers = { 'if-match': '"0123"', 'cache-control': 'no-store' }
      const given = { ...credentials, ...(sessionToken !== undefined && { sessionToken }) }
      const ours = await signedHeaders({ method: 'PUT', url: new URL(url), headers, body }, given, {
        region: 'eu-central-1',
        date,
      })
      const sent = { ...headers, 'x-amz-content-sha256': ours['x-amz-content-sha256'] ?? '' }
      const theirs = await new AwsV4Signer({
        ...given,
        method: 'PUT',
        url,
        headers: sent,
        body,
        service: 's3',
        region: 'eu-central-1',
        datetime: '20261119T214500Z',
      }).sign()
      expect(ours['authorization']).toBe(theirs.headers.get('authorization'))
      expect(ours['authorization']).toContain('if-match')
    },
  )

  test('of another day has another key', async () => {
    const request = { method: 'GET', url: new URL(urls[0] ?? ''), headers: {}, body: '' }
    const on = async (date: string) =>
      signedHeaders(request, credentials, { region: 'eu-central-1', date: new Date(date) })
    const [one, next, again] = [
      await on('2026-11-19T23:59:59Z'),
      await on('2026-11-20T00:00:01Z'),
      await on('2026-11-19T23:59:59Z'),
    ]
    expect(next['authorization']).not.toBe(one['authorization'])
    expect(again).toEqual(one)
  })
})

describe('the name of an object', () => {
  test('is of safe characters, not too long, and of one key alone', async () => {
    const text = string({ unit: 'binary', minLength: 1, maxLength: 400 })
    const property = asyncProperty(text, text, async (key, other) => {
      const [name, otherName] = [await objectName(key), await objectName(other)]
      expect(name).toMatch(/^keys\/[\w-]+(?:~[0-9a-f]{64})?$/)
      expect(name.length).toBeLessThanOrEqual(720)
      expect(name === otherName).toBe(key === other)
      // As long as this beginning is, nothing of the rest is left in the name.
      const alike = 'ü'.repeat(110)
      expect((await objectName(alike + key)) === (await objectName(alike + other))).toBe(key === other)
    })
    await assert(property, { numRuns: 150 })
  })

  test('is not that of a key which is written as another is encoded', async () => {
    for (const [key, other] of [
      ['a/', 'a_2F'],
      ['ü'.repeat(500), `${'_C3_BC'.repeat(106)}_C3_`],
    ] as const) {
      expect(await objectName(key)).not.toBe(await objectName(other))
    }
  })

  test('begins with the name of every beginning of its key', async () => {
    const property = asyncProperty(
      string({ unit: 'grapheme', minLength: 1, maxLength: 300 }),
      nat(),
      async (key, cut) => {
        const points = Array.from(key)
        const prefix = points.slice(0, cut % (points.length + 1)).join('')
        expect((await objectName(key)).startsWith(namePrefix(prefix))).toBe(true)
      },
    )
    await assert(property, { numRuns: 300 })
  })
})

describe('answers of S3', () => {
  const page = (more: string): string =>
    `<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>locks</Name>${more}</ListBucketResult>`

  test('are read: a listing', () => {
    const entry = '<Contents><Key>a%20b%2Fkeys%2Fc_2F</Key><ETag>&quot;1&quot;</ETag><Size>12</Size></Contents>'
    expect(readListing(page(`<IsTruncated>true</IsTruncated>${entry}`))).toEqual({
      objects: [{ name: 'a b/keys/c_2F', bytes: 12 }],
      isLast: false,
    })
    expect(readListing(page('<IsTruncated>false</IsTruncated>'))).toEqual({ objects: [], isLast: true })
  })

  test.each([
    '',
    'no XML',
    '<html></html>',
    page(''),
    page('<IsTruncated>perhaps</IsTruncated>'),
    page('<IsTruncated>false</IsTruncated><Contents><Key>a</Key></Contents>'),
    page('<IsTruncated>false</IsTruncated><Contents><Key>%zz</Key><Size>1</Size></Contents>'),
    page('<IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>many</Size></Contents>'),
  ])('that are no listing are an error, and never an empty one: %j', (text) => {
    expect(() => readListing(text)).toThrow('not a listing')
  })

  test('are read: a fault, also one of somebody else', () => {
    const fault = '<Error><Code>NoSuchKey</Code><Message>It&apos;s &lt;gone&gt; &amp; away</Message></Error>'
    expect(readFault(fault)).toEqual({ code: 'NoSuchKey', message: "It's <gone> & away" })
    expect(readFault('<html>502</html>')).toEqual({ code: '', message: '' })
  })
})

describe('the place of a bucket', () => {
  test.each([
    ['s3://locks?region=eu-central-1', 'https://locks.s3.eu-central-1.amazonaws.com', 'eu-central-1'],
    ['s3://locks?region=cn-north-1', 'https://locks.s3.cn-north-1.amazonaws.com.cn', 'cn-north-1'],
    ['s3://my.locks?region=eu-central-1', 'https://s3.eu-central-1.amazonaws.com/my.locks', 'eu-central-1'],
    ['s3://locks?endpoint=http://127.0.0.1:9000', 'http://127.0.0.1:9000/locks', 'us-east-1'],
    ['s3://locks?endpoint=https%3A%2F%2Fminio.example%2F&pathStyle=false', 'https://locks.minio.example', 'us-east-1'],
    ['s3://locks?endpoint=https://0.r2.cloudflarestorage.com', 'https://0.r2.cloudflarestorage.com/locks', 'auto'],
  ])('%s', (url, base, region) => {
    expect(bucketAddress(s3Options(url, {}))).toEqual({ base, region })
  })

  test('has a prefix that ends with a slash', () => {
    expect(s3Options('s3://locks/a/b', {}).prefix).toBe('a/b/')
    expect(s3Options('s3://locks/a%20b/', {}).prefix).toBe('a b/')
    expect(s3Options('s3://locks', {}).prefix).toBe('leasehold/')
    expect(s3Options('s3://locks/a', { prefix: '' }).prefix).toBe('')
  })

  test.each([
    's3:',
    's3://',
    's3:///a',
    's3://key:s3cret@locks',
    's3://lo cks',
    's3://..',
    's3://locks/..',
    's3://locks/a//b',
    's3://locks/%zz',
    's3://locks?region=',
    's3://locks?region=eu central',
    's3://locks?region=a&region=b',
    's3://locks?pathStyle=yes&region=a',
    's3://locks?secret=s3cret&region=a',
    's3://locks?endpoint=ftp://one',
    's3://locks?endpoint=https://me:s3cret@one',
    's3://locks?endpoint=https%3A%2F%2Fme%3As3cret%40one',
    's3://locks?endpoint=https://one%3Fkey=s3cret',
    `s3://locks/${'a'.repeat(300)}`,
  ])('is refused without a word of what may be secret: %s', async (url) => {
    await expect(connect(url)).rejects.toMatchObject({
      code: 'INVALID',
      message: expect.not.stringContaining('s3cret') as string,
    })
  })
})

describe('options of s3', () => {
  const place = { bucket: 'locks', region: 'eu-central-1' }

  test('leave every claim that lives an object written within the last day: a lifecycle rule of two never meets it', () => {
    const { ttlMaxMs, ttlAndGraceMaxMs } = s3(place).supports
    expect(ttlMaxMs).toBeLessThan(86_400_000)
    expect(ttlAndGraceMaxMs).toBeLessThan(86_400_000)
  })

  test.each([
    [{ region: 'eu-central-1' }, 'bucket'],
    [{ ...place, waitMin: '2s', waitMax: '1s' }, 'waitMin'],
    [{ ...place, readsPerSecond: 0 }, 'readsPerSecond'],
    [{ ...place, readsPerSecond: Number.NaN }, 'readsPerSecond'],
    [{ ...place, callsMax: 0.5 }, 'callsMax'],
    [{ ...place, ttl: '3d' }, 'ttl'],
    [{ ...place, client: new S3Client({ region: 'eu-central-1' }) as never }, 'client'],
  ] as const)('are refused: %j, for %s', (options, named) => {
    expect(() => s3(options)).toThrow(named)
  })
})
