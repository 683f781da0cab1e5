import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { connect } from '../../src/api/connect.ts'
import { github, type GithubOptions } from '../../src/drivers/github/driver.ts'
import { GithubServer } from '../support/github/github-server.ts'
import { OpenApi } from '../support/github/openapi.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

const openapi = new OpenApi()

/** A GitHub Enterprise Server of our own. */
async function enterprise(): Promise<GithubServer & { readonly api: string }> {
  const server = await GithubServer.start({ lagMs: 100, openapi })
  server.github.user('someone', 'write', 'secret')
  return Object.assign(server, { api: `${server.url}/api/v3` })
}

describe('a github: URL', () => {
  let server: Awaited<ReturnType<typeof enterprise>>
  let folder: string
  beforeAll(async () => {
    server = await enterprise()
    folder = makeFolder('gh')
  })
  afterAll(async () => {
    await server.stop()
    expect(server.github.complaints).toEqual([])
    removeFolder(folder)
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

  test('with a token before the repository, where it does not belong, is refused without showing it', async () => {
    const refused = connect('github:ghp_s3cret@o/r')
    await expect(refused).rejects.toMatchObject({ code: 'INVALID', message: expect.not.stringContaining('s3cret') })
  })

  test('of a repository that is not there, is archived, has no issues, or with a wrong token, is refused', async () => {
    vi.stubEnv('GITHUB_TOKEN', 'secret')
    server.github.settings = { archived: true }
    await expect(connect(url())).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'read-only' })
    server.github.settings = { has_issues: false }
    await expect(connect(url())).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'configuration' })
    server.github.settings = {}
    await expect(connect(url().replace('tasks', 'other'))).rejects.toMatchObject({ reason: 'auth' })
    vi.stubEnv('GITHUB_TOKEN', 'wrong')
    await expect(connect(url())).rejects.toMatchObject({ reason: 'auth' })
  })
})

test('names and labels that GitHub or a comment cannot take are refused at once', () => {
  const refused = (options: GithubOptions): unknown => expect(() => github('acme/tasks', options)).toThrow(/INVALID/)
  refused({ workerId: '' })
  refused({ workerId: 'w'.repeat(257) })
  refused({ lockLabel: 'locks,deploys' })
  refused({ lockLabel: '' })
  refused({ heldLabel: 'h'.repeat(51) })
  expect(github('acme/tasks', { workerId: 'w', lockLabel: 'locks', heldLabel: false }).name).toBe('github')
})
