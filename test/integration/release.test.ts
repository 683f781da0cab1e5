/** The workflows of GitHub Actions, and the check before a release. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { workflow, type Step, type Workflow } from '../deploy/workflow.ts'
import { blocksOf } from '../docs/blocks.ts'
import { folderForTest } from '../support/test-folder.ts'

const textOf = (file: string): string => readFileSync(file, 'utf8')
const stepsOf = (each: Workflow): Step[] => Object.values(each.jobs).flatMap(({ steps = [] }) => steps)
const manifest = JSON.parse(textOf('package.json')) as {
  readonly engines: { readonly node: string }
  readonly scripts: Readonly<Record<string, string>>
}

describe('the workflows', () => {
  const all = { test: workflow('test'), release: workflow('release') }

  test('test on Node from the oldest that package.json allows to every major after it', () => {
    const versions = all.test.jobs['linux']?.strategy?.matrix['node'] ?? []
    expect(`>=${versions[0]}`).toBe(manifest.engines.node)
    const majors = [...new Set(versions.map((each) => Number(each.split('.')[0])))]
    expect(majors).toEqual([20, 22, 24, 26])
    for (const major of majors) expect(versions).toContain(String(major))
  })

  test('run what the README says', () => {
    const commands = blocksOf('README.md').flatMap(({ language, text }) => (language === 'sh' ? text.split('\n') : []))
    const promised = commands.filter((line) => line.startsWith('npm ci &&'))
    expect(promised).toHaveLength(2)
    const linux = all.test.jobs['linux']?.steps?.map(({ run }) => run) ?? []
    for (const command of promised) expect(linux).toContain(command)
  })

  test('name scripts that there are, and every script for versions nightly', () => {
    const nightly = all.test.jobs['versions']
    expect(nightly?.if).toContain('schedule')
    const scripts = nightly?.strategy?.matrix['script'] ?? []
    const versioned = Object.keys(manifest.scripts).filter((name) => /^test:(consumers|.*-versions)$/.test(name))
    expect(scripts).toEqual(expect.arrayContaining(versioned))
    const runs = Object.values(all).flatMap((each) => stepsOf(each).flatMap(({ run = '' }) => run.split('\n')))
    const named = runs.flatMap((line) => [...line.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name))
    expect([...named, ...scripts].filter((name) => !(name in manifest.scripts))).toEqual([])
  })

  test('may only read, but for the jobs that publish', () => {
    for (const each of Object.values(all)) expect(each.permissions).toEqual({ contents: 'read' })
    const writing = Object.values(all).flatMap(({ jobs }) =>
      Object.entries(jobs).flatMap(([name, { permissions = {} }]) =>
        Object.entries(permissions).flatMap(([scope, right]) => (right === 'write' ? [`${name}: ${scope}`] : [])),
      ),
    )
    expect(writing).toEqual(['npm: id-token', 'image: packages', 'github: contents'])
    const used = Object.keys(all).flatMap((name) => [
      ...textOf(`.github/workflows/${name}.yml`).matchAll(/secrets[.[]\W*(\w+)/g),
    ])
    expect(used.map(([, name]) => name)).toEqual(['GITHUB_TOKEN'])
  })

  test('leave no credentials in the checkout, use known actions by major version, and upload nothing', () => {
    const steps = Object.values(all).flatMap(stepsOf)
    const actions = steps.flatMap(({ uses }) => uses ?? [])
    expect(actions.filter((name) => !/^(actions|docker)\/[a-z-]+@v\d+$/.test(name))).toEqual([])
    expect(actions.filter((name) => name.includes('upload-artifact'))).toEqual([])
    const checkouts = steps.filter(({ uses }) => uses?.startsWith('actions/checkout@'))
    for (const step of checkouts) expect(step.with).toEqual({ 'persist-credentials': false })
  })

  test('release what was checked and tested, with provenance', () => {
    const { on, jobs } = all.release
    expect(on).toEqual({ push: { tags: ['v*'] } })
    expect(jobs['check']?.steps?.at(-1)?.run).toBe('npm run release:check -- --tag "$GITHUB_REF_NAME"')
    expect(jobs['test']).toMatchObject({ needs: 'check', uses: './.github/workflows/test.yml' })
    for (const name of ['npm', 'image']) expect(jobs[name]?.needs).toEqual(['check', 'test'])
    expect(jobs['npm']?.steps?.at(-1)?.run).toContain('npm publish --provenance --access public')
    expect(jobs['image']?.steps?.at(-1)?.with).toMatchObject({ push: true, provenance: 'mode=max', sbom: true })
    expect(jobs['github']?.needs).toEqual(['check', 'npm', 'image'])
    expect(all.test.on).toHaveProperty('workflow_call')
    expect(all.test.concurrency['cancel-in-progress']).toBe(true)
  })
})

interface Checkout {
  readonly root: string
  readonly write: (file: string, text: string) => void
  readonly commit: () => void
}

describe('npm run release:check', () => {
  const check = (...args: string[]): { code: number | null; lines: string[] } => {
    const { status, stdout } = spawnSync(process.execPath, ['scripts/release-check.mjs', ...args], {
      encoding: 'utf8',
    })
    return { code: status, lines: stdout.split('\n').map((line) => line.trim()) }
  }

  /** A small checkout that can be released, as version 1.2.3. */
  function checkout(): Checkout {
    const root = folderForTest('release')
    const write = (file: string, text: string): void => {
      mkdirSync(path.dirname(path.join(root, file)), { recursive: true })
      writeFileSync(path.join(root, file), text)
    }
    const commit = (): void => {
      const author = ['-c', 'user.name=test', '-c', 'user.email=test@example.invalid']
      for (const args of [
        ['init', '-q'],
        ['add', '-A'],
        [...author, 'commit', '-qm', 'all'],
      ]) {
        execFileSync('git', args, { cwd: root, stdio: 'ignore' })
      }
    }
    const own = { name: 'leasehold', version: '1.2.3', files: ['dist'] }
    const leads = { bin: { leasehold: './dist/main.js' }, exports: { '.': { default: './dist/index.js' } } }
    write('package.json', JSON.stringify({ ...own, ...leads }))
    write('package-lock.json', JSON.stringify({ version: '1.2.3' }))
    write('src/core/package-version.ts', "export const version = '1.2.3'\n")
    write(
      'CHANGELOG.md',
      '# Changelog\n\n## 1.2.3, 2026-01-02\n\n- Fix: this.\n\n## 1.2.2, 2026-01-01\n\n- Fix: that.\n',
    )
    for (const file of ['compose.yaml', 'deploy/kubernetes.yaml']) {
      write(file, '    image: ghcr.io/leasehold/leasehold:1.2.3\n')
    }
    for (const file of ['dist/main.js', 'dist/index.js', 'README.md', 'LICENSE']) write(file, '\n')
    return { root, write, commit }
  }

  test('finds nothing wrong with this checkout but what is not committed', () => {
    const { lines } = check()
    for (const title of [
      'every file says the same version',
      'CHANGELOG.md has its section',
      'the tarball has what it should, and no more',
    ]) {
      expect(lines).toContain(`ok     ${title}`)
    }
  })

  test('lets a checkout through that fits its tag, and writes the notes', () => {
    const { root, commit } = checkout()
    commit()
    // As in a job of GitHub that runs in a container: the checkout is not root's, and git would not look at it.
    if (process.getuid?.() === 0) execFileSync('chown', ['-R', '65534', root])
    const notes = path.join(root, '.git/notes.md')
    const { code, lines } = check('--root', root, '--tag', 'v1.2.3', '--notes', notes)
    expect({ code, last: lines.at(-2) }).toEqual({ code: 0, last: 'leasehold 1.2.3 can be released as latest' })
    expect(textOf(notes)).toBe('- Fix: this.\n')
  })

  test('says everything that is wrong', () => {
    const { root, write, commit } = checkout()
    write('src/core/package-version.ts', "export const version = '1.2.2'\n")
    write('CHANGELOG.md', '# Changelog\n\n## 1.2.3, unreleased\n\n- Fix: this.\n')
    write('dist/index.js.map', '{}')
    rmSync(path.join(root, 'dist/main.js'))
    commit()
    write('compose.yaml', '    image: ghcr.io/leasehold/leasehold:1.2.2\n')
    const { code, lines } = check('--root', root, '--tag', 'v1.2.4')
    expect(code).toBe(1)
    expect(lines.filter((line) => line !== '')).toEqual([
      'FAILED every file says the same version',
      'package.json says 1.2.3, but src/core/package-version.ts says 1.2.2',
      'package.json says 1.2.3, but the tag says 1.2.4',
      'package.json says 1.2.3, but compose.yaml says 1.2.2',
      'FAILED CHANGELOG.md has its section',
      'the heading says "unreleased" where the day of the release belongs, as YYYY-MM-DD',
      'FAILED the working tree is as it was committed',
      'M compose.yaml',
      'FAILED the tarball has what it should, and no more',
      'dist/index.js.map should not be in it',
      'dist/main.js is missing. Run: npm run build',
    ])
  })
})
