import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Octokit } from '@octokit/core'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { connect } from '../../src/api/connect.ts'
import { github } from '../../src/drivers/github.ts'
import { GithubServer } from '../support/github/github-server.ts'
import { liveSuite } from '../support/github/live-suite.ts'
import { OpenApi } from '../support/github/openapi.ts'

const openapi = new OpenApi()
const { GITHUB_REPO: realRepository, GITHUB_TOKEN: realToken } = process.env

/** A GitHub Enterprise Server of our own. */
async function enterprise(): Promise<GithubServer & { readonly api: string }> {
  const server = await GithubServer.start({ lagMs: 100, openapi })
  server.github.user('someone', 'write', 'secret', 'secret-0', 'secret-1')
  return Object.assign(server, { api: `${server.url}/api/v3` })
}

liveSuite(
  'the repository of a GitHub of our own',
  async () => {
    const server = await enterprise()
    const { repository } = server.github
    return {
      driver: (worker) => github(repository, { token: `secret-${worker}`, baseUrl: server.api, settle: 200 }),
      openIssue: async () => server.github.openIssue('A task', 'someone'),
      async close() {
        await server.stop()
        expect(server.github.complaints).toEqual([])
      },
    }
  },
  60_000,
)

if (realRepository !== undefined && realToken !== undefined) {
  const octokit = new Octokit({ auth: realToken })
  const [owner = '', repo = ''] = realRepository.split('/')
  liveSuite(
    `the repository ${realRepository}`,
    async () => ({
      driver: () => github(realRepository),
      async openIssue() {
        const { data } = await octokit.request('POST /repos/{owner}/{repo}/issues', {
          owner,
          repo,
          title: 'Leasehold tests',
        })
        return data.number
      },
      close: async () => {},
    }),
    300_000,
  )
}

describe('a github: URL', () => {
  let server: Awaited<ReturnType<typeof enterprise>>
  let folder: string
  beforeAll(async () => {
    server = await enterprise()
    folder = mkdtempSync(path.join(tmpdir(), 'leasehold-gh-'))
  })
  afterAll(async () => {
    await server.stop()
    expect(server.github.complaints).toEqual([])
    rmSync(folder, { recursive: true, force: true })
  })
  afterEach(() => vi.unstubAllEnvs())

  const url = (): string => `github:${server.github.repository}?api=${server.api}&settle=200ms`

  test('takes its token from GITHUB_TOKEN', async () => {
    vi.stubEnv('GITHUB_TOKEN', 'secret')
    await (await connect(url())).close()
  })

  test("takes its token from GitHub's command line", async () => {
    vi.stubEnv('GITHUB_TOKEN', '')
    vi.stubEnv('PATH', folder)
    await expect(connect(url())).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
    writeFileSync(path.join(folder, 'gh'), '#!/bin/sh\n[ "$1 $2" = "auth token" ] && echo secret\n', { mode: 0o755 })
    await (await connect(url())).close()
  })

  test('may be written with slashes, and takes no more than it knows', async () => {
    vi.stubEnv('GITHUB_TOKEN', 'secret')
    await (await connect(url().replace('github:', 'github://'))).close()
    await expect(connect('github:acme/tasks?color=red')).rejects.toMatchObject({ code: 'INVALID' })
    await expect(connect('github:acme')).rejects.toMatchObject({ code: 'INVALID' })
  })

  test('of a repository that is not there, with a wrong token, or archived, is refused', async () => {
    vi.stubEnv('GITHUB_TOKEN', 'secret')
    await expect(connect(url().replace('tasks', 'other'))).rejects.toMatchObject({ reason: 'auth' })
    vi.stubEnv('GITHUB_TOKEN', 'wrong')
    await expect(connect(url())).rejects.toMatchObject({ reason: 'auth' })
  })
})
