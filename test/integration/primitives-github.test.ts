import { primitivesConformance } from '../../src/testing/index.ts'
import { githubHarness } from '../support/github/github-harness.ts'
import { OpenApi } from '../support/github/openapi.ts'

primitivesConformance(
  'github',
  githubHarness(new OpenApi(), false, {
    settle: 5,
    poll: { min: 5, max: 50 },
    publish: ['host', 'pid', 'owner', 'metadata'],
    assign: false,
    heldLabel: false,
  }),
)
