// A GitHub of our own, in a process of its own. It prints what to set to use it, and ends with its parent or by a signal.
//
//   node github-server.js [LAG_MS]
//
// POST /control does what nobody can ask of the real one: `{"advance": 5000}` moves its clock. It answers with what was not
// as GitHub's description has it so far.
import { GithubServer } from '../support/github/github-server.ts'
import { OpenApi } from '../support/github/openapi.ts'

const [lagMs = '1000'] = process.argv.slice(2)
const generous = { requestsPerHour: 1e9, pointsPerMinute: 1e9, createdPerMinute: 1e9, createdPerHour: 1e9 }
let aheadMs = 0

const server = await GithubServer.start(
  { now: () => Date.now() + aheadMs, lagMs: Number(lagMs), allowance: generous, openapi: new OpenApi() },
  (order) => {
    aheadMs += (JSON.parse(order) as { advance: number }).advance
    return server.github.complaints
  },
)
server.github.user('someone', 'write', 'secret')
console.log(`GITHUB_REPO=${server.github.repository}`)
console.log('GITHUB_TOKEN=secret')
console.log(`GITHUB_API_URL=${server.url}/api/v3`)
console.log('ready')
