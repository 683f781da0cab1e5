import { clientConformance, conformance } from '../../src/testing/index.ts'
import { githubHarness } from '../support/github/github-harness.ts'
import { OpenApi } from '../support/github/openapi.ts'

const openapi = new OpenApi()
const quick = {
  settle: 5,
  poll: { min: 5, max: 50 },
  publish: ['host', 'pid', 'owner', 'metadata'],
  // What people see is tested in github-people.
  assign: false,
  heldLabel: false,
} as const

conformance('github', {
  ...githubHarness(openapi, true, quick),
  // The fence is the id of the claim's comment: nobody can lift it.
  except: [
    'a fence floor lifts the fence of a holder and all later ones',
    'the highest fence floor leaves room for more',
    'a fence floor told by a waiter lifts later fences',
    // A claim is granted when its owner asks: an upgrade whose owner was silent is over. That this is safe: github-conversion, decision 061.
    'an upgrade lasts at least as long as the lease whose place it took',
  ],
})

clientConformance('github', githubHarness(openapi, false, quick))
