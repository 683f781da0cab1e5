// Next.js: the server's part of an application, bundled by either of its bundlers or left outside.
import assert from 'node:assert/strict'

const route = `
import { connect } from 'leasehold'
export const dynamic = 'force-dynamic'
export async function GET() {
  const locks = await connect('memory:')
  const fence = await locks.run('job', async (lease) => lease.fence)
  await locks.close()
  const refusals = await Promise.all(['mongodb', 'redis'].map((store) =>
    connect(store + '://127.0.0.1:1').catch(({ message }) => message)))
  return Response.json([fence > 0, ...refusals])
}
`
/** One client is missing. The other is installed, and nobody listens where it connects to. */
const answer = [
  true,
  'UNAVAILABLE: The mongodb driver needs mongodb ^6.11 or ^7. Run: npm install mongodb@7',
  'UNAVAILABLE: Redis cannot be reached: connect ECONNREFUSED 127.0.0.1:1.',
]

/** Starts the built application on a free port, and prints what its route answers. */
const asking = `
import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
const isFree = (port) => new Promise((resolve) => {
  const server = createServer().once('error', () => resolve(false))
  server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
})
let port
do port = 20_000 + Math.floor(Math.random() * 10_000)
while (!(await isFree(port)))
const next = spawn(process.execPath, ['node_modules/next/dist/bin/next', 'start', '-H', '127.0.0.1', '-p', String(port)])
try {
  for (let tries = 0; tries < 300; tries += 1) {
    const said = await fetch('http://127.0.0.1:' + port + '/locks').then((got) => got.text()).catch(() => undefined)
    if (said !== undefined) { console.log(said); break }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
} finally {
  next.kill()
}
`

export const rows = new Map([
  [
    'next, by either bundler and as an external package',
    (project) => {
      project.install('next@16.4.6', 'react@19.3.1', 'react-dom@19.3.1', 'ioredis@5.11.1')
      project.write({
        'package.json': '{ "private": true }',
        'app/layout.js': 'export default ({ children }) => <html><body>{children}</body></html>',
        'app/page.js': 'export default () => <p>Locks</p>',
        'app/locks/route.js': route,
        'ask.mjs': asking,
      })
      for (const [bundler, external] of [
        ['--turbopack', []],
        ['--webpack', []],
        ['--turbopack', ['leasehold']],
      ]) {
        project.write({
          'next.config.mjs': `export default { serverExternalPackages: ${JSON.stringify(external)} }`,
        })
        const printed = project.runTool('next', 'node_modules/next/dist/bin/next', 'build', bundler)
        assert.doesNotMatch(printed, /warn|leasehold/i)
        assert.deepEqual(JSON.parse(project.run('ask.mjs')), answer)
      }
    },
  ],
])
