// The repository of GITHUB_REPO, or of a GitHub of our own: see docs/stores/github.md.
import { randomUUID } from 'node:crypto'
import { afterAll, vi } from 'vitest'
import { conformance } from '../../src/testing/index.ts'
import { liveSuite } from '../support/github/live-suite.ts'
import { inRoom } from '../support/github/room.ts'
import { testRepository } from '../support/github/repository.ts'

const repository = await testRepository()
const { name, isReal, settleMs } = repository
// A real one has its own time: a fact may take its quarter of an hour.
if (isReal) vi.setConfig({ testTimeout: 900_000, hookTimeout: 300_000 })
afterAll(() => repository.close())

liveSuite(repository)

// Comments come three seconds apart at best, and all that is asked for takes its time, here too where a machine is slow.
const toleranceMs = isReal ? 2 * settleMs + 6000 : 4500
/** Reads are mostly fresh. Facts about what others see at once need them to be. */
const restMs = Math.min(settleMs, 1000)

/** Each of these makes forty to a thousand comments and issues, and GitHub allows an account 500 an hour. */
const tooMuch = [
  'a batch of five hundred is answered whole',
  'two hundred waiters are served in their order',
  'a key whose name was not used for a while goes on where it stopped',
  'many keys in one send are answered in their order',
  'pages together show every key once',
  "sends at the same time do not get in each other's way",
]

conformance(isReal ? `github, in ${name},` : 'github', {
  toleranceMs,
  tickMs: isReal ? 2.5 * toleranceMs : 10_000,
  async open() {
    const room = `room-${randomUUID()}`
    return {
      async driver() {
        const publish = ['host', 'pid', 'owner', 'metadata'] as const
        const driver = repository.quickDriver({ publish, assign: false, heldLabel: false })
        await driver.open()
        return inRoom(driver, room, isReal ? restMs : 0)
      },
      advance: (milliseconds) => repository.advance(milliseconds),
      close: async () => {},
    }
  },
  except: [
    // The fence is the id of the claim's comment: nobody can lift it.
    'a fence floor lifts the fence of a holder and all later ones',
    'the highest fence floor leaves room for more',
    'a fence floor told by a waiter lifts later fences',
    // A claim is granted when its owner asks: an upgrade whose owner was silent is over. That this is safe: github-conversion, decision 061.
    'an upgrade lasts at least as long as the lease whose place it took',
    // A listing is one reading, which may lack the newest claims.
    'of many claims the first are listed, the one that is known, and how many there are',
    ...tooMuch,
  ],
})
