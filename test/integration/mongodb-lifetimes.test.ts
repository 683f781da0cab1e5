import { afterAll, describe } from 'vitest'
import { lifetimeTest } from '../lifetime/suite.ts'
import { againIfItFell, countFalls } from '../support/mongo-falls.ts'
import { MongoServer } from '../support/mongo-server.ts'

countFalls()
const server = await MongoServer.start()
afterAll(() => server.stop())

describe('nothing survives close', () => {
  // Cut off, MongoDB's own client keeps timers until the time of what it was asked is over.
  lifetimeTest({ title: 'mongodb', kinds: [], url: async () => server.url }, { retry: againIfItFell })
})
