/** S3 alone and behind a server, under the faults that it has, in real time. */
import { afterAll } from 'vitest'
import { alone, behindServers } from '../composition/compositions.ts'
import { compositionMatrix } from '../composition/matrix.ts'
import { s3StoreOn } from '../composition/real-stores.ts'
import { realTime } from '../composition/time.ts'
import { S3Server } from '../support/s3-server.ts'

const server = await S3Server.start()
afterAll(() => server.stop())

const behindServer = behindServers(1)

compositionMatrix('s3', {
  make: s3StoreOn(server),
  time: realTime,
  ttlMs: 3000,
  concurrent: true,
  cells: [
    { composition: alone, fault: 'the store comes back empty', promised: 'fenced' },
    { composition: behindServer, fault: 'the store comes back empty', promised: 'fenced' },
    { composition: alone, fault: 'the holder is cut off', promised: 'exclusive' },
    { composition: behindServer, fault: 'the process in between is killed, and comes back', promised: 'exclusive' },
    { composition: alone, fault: 'nothing', off: { clientMs: 3_600_000 }, promised: 'kept' },
    { composition: alone, fault: 'nothing', off: { clientMs: -3_600_000 }, promised: 'kept' },
  ],
})
