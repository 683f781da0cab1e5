/** Stores that speak S3 and are not safe: a moto of an earlier release heeds `If-None-Match` and ignores `If-Match`. */
import { expect, onTestFinished, test } from 'vitest'
import { S3Server } from '../support/s3-server.ts'
import { unopenedS3 } from '../support/s3-store.ts'

test('a store that ignores If-Match when it writes is refused', async () => {
  const server = await S3Server.start({ release: 'trixie' })
  onTestFinished(() => server.stop())
  const write = { Bucket: server.bucket, Key: 'a', Body: 'late', IfMatch: '"of another object"' }
  await server.client.putObject(write)
  await expect(unopenedS3(server).open()).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('ignores If-Match') as string,
  })
})
