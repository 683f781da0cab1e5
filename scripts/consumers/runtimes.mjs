// Bun and Deno, as their users install and build.
import assert from 'node:assert/strict'
import path from 'node:path'
import { fetchRuntime } from '../fetch-runtime.mjs'
import { finished } from './project.mjs'

/** Takes a lock twice, the second time by hand-over from the first holder. */
const body = `
async function main() {
  for (const url of ['memory:', 'sqlite:locks.sqlite']) {
    const locks = await connect(url)
    const first = await locks.acquire('job')
    const waiting = locks.acquire('job', { wait: '20s' })
    await first.release()
    const second = await waiting
    console.log(url, second.fence > first.fence)
    await second.release()
    await locks.close()
  }
}
main()
`
const says = 'memory: true\nsqlite:locks.sqlite true\n'
const programs = {
  'imports.mjs': `import { connect } from 'leasehold'\n${body}`,
  'requires.cjs': `const { connect } = require('leasehold')\n${body}`,
}

export const rows = new Map([
  [
    'bun, its install, a bundle and a single executable',
    (project) => {
      const bun = (...args) => finished(fetchRuntime('bun'), args, project.folder).stdout
      project.write(programs)
      bun('add', '--ignore-scripts', project.tarball)
      for (const file of Object.keys(programs)) assert.equal(bun(file), says, file)
      bun('build', 'imports.mjs', '--target=bun', '--outfile=out/bundle.mjs')
      assert.equal(bun('out/bundle.mjs'), says)
      bun('build', 'imports.mjs', '--compile', '--outfile=out/alone')
      assert.equal(finished(path.join(project.folder, 'out/alone'), [], project.folder).stdout, says)
      assert.equal(bun('run', '--bun', 'leasehold', 'run', 'job', '--', 'echo', 'held'), 'held\n')
    },
  ],
  [
    'deno, with a node_modules folder',
    (project) => {
      const deno = (...args) => finished(fetchRuntime('deno'), args, project.folder).stdout
      project.write(programs)
      project.install()
      project.write({ 'deno.json': '{ "nodeModulesDir": "manual" }' })
      for (const file of Object.keys(programs)) assert.equal(deno('run', '-A', file), says, file)
    },
  ],
  ['deno compile', compileInDeno],
])

/** Deno fetches what an executable begins with from a host of its own, or takes it from where DENORT_BIN says. */
function compileInDeno(project) {
  const deno = (...args) => finished(fetchRuntime('deno'), args, project.folder).stdout
  project.write(programs)
  project.install()
  project.write({ 'deno.json': '{ "nodeModulesDir": "manual" }' })
  try {
    deno('compile', '-A', '--output', 'out/alone', 'imports.mjs')
  } catch (error) {
    if (!/denort.*\n?[^]*error sending request/.test(error.message)) throw error
    return 'denort cannot be downloaded here. Set DENORT_BIN to one of the same version.'
  }
  assert.equal(finished(path.join(project.folder, 'out/alone'), [], project.folder).stdout, says)
  return undefined
}
