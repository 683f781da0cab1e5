/** S3 beside what people write by hand: an object that is created with If-None-Match and deleted, one lock at a time. */
import { createLocks } from '../src/index.ts'
import { s3 } from '../src/drivers/s3/driver.ts'
import { freshS3Prefix, S3Server } from '../test/support/s3-server.ts'
import { interleave, median, report } from './report.ts'

const rounds = 15
/** Pairs of a round, one after another. */
const pairsARound = 25

const server = await S3Server.start()
const { client, bucket: Bucket } = server
const locks = await createLocks({ driver: s3(server.options(freshS3Prefix())) })

async function leaseholdPair(): Promise<void> {
  const lease = await locks.acquire('alone')
  await lease.release()
}

/** No queue, no fence, and a holder that crashed holds for ever. */
async function handWrittenPair(): Promise<void> {
  await client.putObject({ Bucket, Key: 'alone', Body: 'held', IfNoneMatch: '*' })
  await client.deleteObject({ Bucket, Key: 'alone' })
}

/** The median time of a pair, one after another. */
async function pairMs(pair: () => Promise<void>): Promise<number> {
  const durations: number[] = []
  for (let turn = 0; turn < pairsARound; turn += 1) {
    const startedAt = performance.now()
    await pair()
    durations.push(performance.now() - startedAt)
  }
  return median(durations)
}

const contenders = { leasehold: () => pairMs(leaseholdPair), handWritten: () => pairMs(handWrittenPair) }
await interleave(3, contenders)
const alone = await interleave(rounds, contenders)
await locks.close()
await server.stop()

const hundredths = (figure: number): number => Math.round(figure * 100) / 100
report({
  name: 's3',
  figures: {
    pairP50Ms: hundredths(alone.medians.leasehold),
    handWrittenPairP50Ms: hundredths(alone.medians.handWritten),
  },
  bars: {
    timeToHandWrittenPair: {
      title: 'S3, one lock at a time: p50 of a pair',
      peer: {
        name: 'PUT with `If-None-Match`, and DELETE',
        kind: 'hand-written',
        ours: alone.medians.leasehold,
        theirs: alone.medians.handWritten,
        unit: 'ms',
      },
      actual: hundredths(alone.ratio('leasehold', 'handWritten')),
      atMost: 2.5,
    },
  },
})
