// Programs that are deployed as one file, with nothing beside it.
import assert from 'node:assert/strict'
import { chmodSync, copyFileSync, mkdirSync } from 'node:fs'
import path from 'node:path'

/** As a function service calls it: a client that is bundled too, and handed over. */
const handler = `
import { createLocks } from 'leasehold'
import { redis } from 'leasehold/redis'
import { Redis } from 'ioredis'
export async function handler(event) {
  const client = new Redis(event.url, { lazyConnect: true, retryStrategy: null })
  client.on('error', () => {})
  try {
    const locks = await createLocks({ driver: redis({ client }) })
    return await locks.run('job', async (lease) => lease.fence)
  } catch (error) {
    return error.code
  } finally {
    client.disconnect()
  }
}
`
/** Nobody listens on that port: the driver and its client are in the file, and say so. */
const calling = (file) => `
import handlers from './${file}'
console.log(await handlers.handler({ url: 'redis://127.0.0.1:1' }))
`

/** A program that is its own executable. */
const program = `
import { connect, createLocks, LeaseholdError } from 'leasehold'
import { memory } from 'leasehold/memory'
async function main() {
  const locks = await createLocks({ driver: memory() })
  await locks.run('job', async (lease) => console.log('held', lease.fence > 0))
  await locks.close()
  await connect('mongodb://127.0.0.1:1').catch((error) => console.log(error instanceof LeaseholdError, error.message))
}
main()
`

export const rows = new Map([
  [
    'lambda, one file with its client',
    (project) => {
      project.install('esbuild@0.28.2', 'ioredis@5.11.1')
      project.write({ 'handler.mjs': handler, 'alone/call.mjs': calling('handler.cjs') })
      project.evaluate(`
        import { build } from 'esbuild'
        const { warnings } = await build({ entryPoints: ['handler.mjs'], outfile: 'alone/handler.cjs', bundle: true, minify: true,
          platform: 'node', target: 'node20', format: 'cjs', logLevel: 'silent' })
        if (warnings.length > 0) throw new Error(JSON.stringify(warnings))`)
      project.remove('node_modules')
      assert.equal(project.run('alone/call.mjs'), 'UNAVAILABLE\n')
    },
  ],
  [
    'executable, made by Node itself',
    (project) => {
      project.install('esbuild@0.28.2', 'postject@1.0.0-alpha.6')
      project.write({
        'program.mjs': program,
        'sea.json': JSON.stringify({
          main: 'out/program.cjs',
          output: 'out/program.blob',
          disableExperimentalSEAWarning: true,
        }),
      })
      project.evaluate(`
        import { build } from 'esbuild'
        await build({ entryPoints: ['program.mjs'], outfile: 'out/program.cjs', bundle: true,
          platform: 'node', target: 'node20', format: 'cjs', logLevel: 'silent' })`)
      project.runTool('node', '--experimental-sea-config', 'sea.json')
      const executable = path.join(project.folder, 'alone', 'program')
      mkdirSync(path.dirname(executable), { recursive: true })
      copyFileSync(process.execPath, executable)
      chmodSync(executable, 0o755)
      const fuse = ['--sentinel-fuse', 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2']
      const words = [executable, 'NODE_SEA_BLOB', 'out/program.blob', ...fuse]
      project.runTool('postject', 'node_modules/postject/dist/cli.js', ...words)
      project.remove('node_modules')
      assert.equal(
        project.runProgram(executable),
        'held true\ntrue UNAVAILABLE: The mongodb driver needs mongodb ^6.11 or ^7. Run: npm install mongodb@7\n',
      )
    },
  ],
])
