/** Signatures and rights, as a server checks them that others wrote. */
import { request } from 'node:http'
import { S3 } from '@aws-sdk/client-s3'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { claim, claimOf, release } from '../support/claims.ts'
import { freshS3Prefix, S3Server } from '../support/s3-server.ts'
import { openS3, unopenedS3 } from '../support/s3-store.ts'

/** The bucket, and a user with a policy and a key for each of two. */
const server = await S3Server.start({ callsBeforeRights: 7 })
afterAll(() => server.stop())

/** A call of IAM, which answers in XML. */
function iam(parameters: Readonly<Record<string, string>>): Promise<string> {
  return new Promise((resolve, reject) => {
    // By this alone the server knows the service; it checks nothing yet.
    const authorization =
      'AWS4-HMAC-SHA256 Credential=none/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0'
    const headers = { authorization, 'content-type': 'application/x-www-form-urlencoded' }
    const sending = request({ host: '127.0.0.1', port: server.port, method: 'POST', headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece))
      response.on('end', () => (response.statusCode === 200 ? resolve(text) : reject(new Error(text))))
    })
    sending.on('error', reject)
    sending.end(new URLSearchParams({ Version: '2010-05-08', ...parameters }).toString())
  })
}

async function userWith(
  UserName: string,
  actions: readonly string[],
): Promise<{ accessKeyId: string; secretAccessKey: string }> {
  await iam({ Action: 'CreateUser', UserName })
  const Statement = [{ Effect: 'Allow', Action: actions, Resource: '*' }]
  const PolicyDocument = JSON.stringify({ Version: '2012-10-17', Statement })
  await iam({ Action: 'PutUserPolicy', UserName, PolicyName: 'locks', PolicyDocument })
  const text = await iam({ Action: 'CreateAccessKey', UserName })
  const part = (name: string): string => new RegExp(`<${name}>([^<]+)<`).exec(text)?.[1] ?? ''
  const credentials = { accessKeyId: part('AccessKeyId'), secretAccessKey: part('SecretAccessKey') }
  expect(credentials.secretAccessKey).not.toBe('')
  return credentials
}

const objects = ['s3:GetObject', 's3:PutObject', 's3:ListBucket']
const locker = await userWith('locker', [...objects, 's3:GetBucketVersioning', 's3:GetLifecycleConfiguration'])
const reader = await userWith('reader', ['s3:GetObject'])

test('a user with the rights of the page takes locks, lists them and lets them go', async () => {
  const driver = await openS3(server, freshS3Prefix(), { credentials: locker })
  const wanted = claimOf('a/b ä')
  expect(await claim(driver, wanted)).toMatchObject({ state: 'held' })
  expect((await driver.list({ prefix: 'a/' })).keys).toHaveLength(1)
  expect(await release(driver, wanted)).toEqual({ state: 'absent', reason: 'released' })
})

test('so does a client of the AWS SDK', async () => {
  const place = { endpoint: server.endpoint, region: 'us-east-1', forcePathStyle: true }
  const client = new S3({ ...place, credentials: locker })
  onTestFinished(() => client.destroy())
  const driver = await openS3(server, freshS3Prefix(), { client })
  expect(await claim(driver, claimOf('a/b ä'))).toMatchObject({ state: 'held' })
})

test.each([
  ['an unknown key', { ...locker, accessKeyId: 'AKIANOBODY' }, 'AWS_ACCESS_KEY_ID'],
  ['a wrong secret', { ...locker, secretAccessKey: 'wrong' }, 'AWS_SECRET_ACCESS_KEY'],
  ['a user who may not write', reader, 's3:PutObject'],
])('%s is refused, with what to do', async (_, credentials, advice) => {
  await expect(unopenedS3(server, { credentials }).open()).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    reason: 'auth',
    message: expect.stringContaining(advice) as string,
  })
})
