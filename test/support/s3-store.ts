/** Drivers and clients on a real S3 server, each open until its test is over. */
import { onTestFinished } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { s3, type S3Options } from '../../src/drivers/s3/driver.ts'
import type { Bench } from '../../src/testing/index.ts'
import { opened } from './opened.ts'
import { realTimeBench } from './real-time-bench.ts'
import { freshS3Prefix, type S3Server } from './s3-server.ts'

/** A driver on a prefix, by way of a proxy if one is given. */
export function openS3(
  server: S3Server,
  prefix: string,
  options: S3Options = {},
  proxy?: { readonly port: number },
): Promise<LockDriver> {
  return opened(s3({ ...server.options(prefix, proxy), ...options }))
}

/** The same, not opened yet. */
export function unopenedS3(server: S3Server, options: S3Options = {}, proxy?: { readonly port: number }): LockDriver {
  const driver = s3({ ...server.options(freshS3Prefix(), proxy), ...options })
  onTestFinished(() => driver.close())
  return driver
}

/** For the suites that run in real time. */
export function s3Bench(server: S3Server): Bench {
  const prefix = freshS3Prefix()
  return realTimeBench(() => s3(server.options(prefix)))
}

/** The names of all objects of a prefix, without it. */
export async function objectsIn(server: S3Server, prefix: string): Promise<string[]> {
  const { Contents = [] } = await server.client.listObjectsV2({ Bucket: server.bucket, Prefix: prefix })
  return Contents.map(({ Key = '' }) => Key.slice(prefix.length))
}
