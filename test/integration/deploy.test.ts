/** The image, compose.yaml and the files under deploy/: what they say is true, and what they start runs. */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { memory } from '../../src/drivers/memory/driver.ts'
import { resolveLimits } from '../../src/server/contract/limits.ts'
import { version } from '../../src/index.ts'
import { complaintAboutContainers, Container, type Run } from '../deploy/container.ts'
import { allOf, environmentOf, execForm, isLetThrough, stagesOf } from '../deploy/dockerfile.ts'
import { workflow } from '../deploy/workflow.ts'
import { around } from '../support/around.ts'
import { needProgram } from '../support/debian.ts'
import { makePrivateCa } from '../support/private-ca.ts'
import { startServer } from '../support/started-server.ts'
import type { CommandLine } from './cli-process.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'
import { folderForTest } from '../support/test-folder.ts'

const textOf = (file: string): string => readFileSync(file, 'utf8')
const help = execFileSync(process.execPath, ['dist/node/cli.js', 'serve', '--help'], { encoding: 'utf8' })
const [, port = ''] = /--port NUMBER\s+default (\d+)/.exec(help) ?? []
/** How long a server may take to end: the calls under way, then the store. */
const endsWithinSeconds = (2 * resolveLimits().drainWithinMs) / 1000
const unknownFlags = (words: readonly string[]): string[] =>
  words.filter((word) => word.startsWith('--') && !help.includes(`${word} `))
const tokens = JSON.stringify([{ name: 'ci', token: 'c'.repeat(20), namespaces: '*', rights: ['lock', 'read'] }])

const stages = stagesOf('Dockerfile')
const image = stages.at(-1) as (typeof stages)[number]
const compose = parse(textOf('compose.yaml')) as {
  readonly services: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly secrets: Readonly<Record<string, { readonly file: string }>>
}
const server = compose.services['leasehold'] as {
  readonly image: string
  readonly command: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly ports: readonly string[]
  readonly stop_grace_period: string
  readonly read_only: boolean
}

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
}
interface Pod {
  readonly terminationGracePeriodSeconds: number
  readonly securityContext: Readonly<Record<string, unknown>>
  readonly containers: readonly [
    {
      readonly image: string
      readonly args: readonly string[]
      readonly env: readonly { readonly name: string; readonly value?: string; readonly valueFrom?: unknown }[]
      readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
      readonly livenessProbe: Probe
      readonly readinessProbe: Probe
      readonly startupProbe: Probe
      readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly [string, string] } } }
      readonly securityContext: Readonly<Record<string, unknown>>
      readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
    },
  ]
  readonly volumes: readonly [{ readonly name: string; readonly secret: { readonly defaultMode: number } }]
}
const objects = parseAllDocuments(textOf('deploy/kubernetes.yaml'), { version: '1.1' }).map(
  (document) =>
    document.toJS() as {
      readonly kind: string
      readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: object }
      readonly spec: Readonly<Record<string, unknown>>
    },
)
const objectOf = (kind: string): (typeof objects)[number] =>
  objects.find((each) => each.kind === kind) as (typeof objects)[number]
const template = objectOf('Deployment').spec['template'] as {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> }
  readonly spec: Pod
}
const pod = template.spec
const [podContainer] = pod.containers

describe('the Dockerfile', () => {
  test('copies files that there are, and that .dockerignore lets through', () => {
    const copied = stages.flatMap((stage) => allOf(stage, 'COPY').filter(({ flags }) => flags['from'] === undefined))
    const sources = copied.flatMap(({ text }) => text.split(' ').slice(0, -1))
    expect(sources).toContain('src')
    expect(sources.filter((file) => !existsSync(file) || !isLetThrough(file))).toEqual([])
  })

  test('keeps history, secrets and what was built elsewhere out', () => {
    const kept = [
      '.git/config',
      'node_modules/pg/package.json',
      'dist/index.js',
      '.env',
      'tokens.json',
      '.npmrc',
      'key.pem',
    ]
    const inside = ['src/.env', 'src/server/tokens.json', 'scripts/key.pem', 'deploy/kubernetes.yaml']
    expect([...kept, ...inside].filter((file) => isLetThrough(file))).toEqual([])
    expect(['src/server/auth/tokens.ts', 'src/cli/main.ts'].every((file) => isLetThrough(file))).toBe(true)
  })

  test('is for a Node that we test, a user that is not root, and the port of the server', () => {
    const tested = workflow('test').jobs['linux']?.strategy?.matrix['node'] ?? []
    for (const { base } of stages) expect(tested.map((each) => `node:${each}-slim`)).toContain(base)
    expect(allOf(image, 'USER').map(({ text }) => text)).toEqual(['1000:1000'])
    expect(allOf(image, 'EXPOSE').map(({ text }) => text)).toEqual([port])
    expect(allOf(image, 'STOPSIGNAL').map(({ text }) => text)).toEqual(['SIGTERM'])
    expect(unknownFlags(execForm(image, 'CMD'))).toEqual([])
    // Nothing is run for another architecture.
    expect(allOf(image, 'RUN')).toEqual([])
  })
})

describe('compose.yaml', () => {
  test('names this version, the port of the server and flags that there are, on this machine only', () => {
    expect(server.image).toBe(`ghcr.io/leasehold/leasehold:${version}`)
    expect(server.ports).toEqual([`127.0.0.1:${port}:${port}`])
    expect(unknownFlags(server.command)).toEqual([])
    expect(server.environment['LEASEHOLD_TOKENS']).toBe('/run/secrets/tokens')
    expect(compose.secrets['tokens']).toEqual({ file: './tokens.json' })
    expect(Number.parseInt(server.stop_grace_period)).toBeGreaterThan(endsWithinSeconds)
  })

  test('has no password of its own', () => {
    const passwords = [...textOf('compose.yaml').matchAll(/\$\{(\w*PASSWORD)(:\?)?/g)].map(([, name, isNeeded]) => [
      name,
      isNeeded,
    ])
    expect(passwords).toEqual([
      ['POSTGRES_PASSWORD', ':?'],
      ['POSTGRES_PASSWORD', ':?'],
    ])
    expect(compose.services['postgres']).toMatchObject({
      environment: { POSTGRES_PASSWORD: expect.stringMatching(/^\$\{/) as string },
      healthcheck: { test: expect.arrayContaining(['pg_isready']) as string[] },
    })
  })
})

describe('deploy/kubernetes.yaml', () => {
  test('has parts that fit each other, in one namespace', () => {
    expect(objects.map(({ kind }) => kind)).toEqual([
      'Namespace',
      'Deployment',
      'PodDisruptionBudget',
      'Service',
      'NetworkPolicy',
    ])
    for (const { metadata, kind } of objects) if (kind !== 'Namespace') expect(metadata.namespace).toBe('leasehold')
    const { labels } = template.metadata
    const selects = { matchLabels: labels }
    expect(objectOf('Deployment').spec['selector']).toEqual(selects)
    expect(objectOf('PodDisruptionBudget').spec['selector']).toEqual(selects)
    expect(objectOf('NetworkPolicy').spec).toMatchObject({
      podSelector: selects,
      ingress: [{ ports: [{ port: Number(port) }] }],
    })
    const ports = [{ name: 'http', port: Number(port), targetPort: 'http' }]
    expect(objectOf('Service').spec).toEqual({ selector: labels, sessionAffinity: 'ClientIP', ports })
    expect(podContainer.ports).toEqual([{ name: 'http', containerPort: Number(port) }])
    expect(podContainer.image).toBe(`ghcr.io/leasehold/leasehold:${version}`)
  })

  test('runs the user of the image without privileges, and holds no secret', () => {
    const [user = '', group = ''] = allOf(image, 'USER')[0]?.text.split(':') ?? []
    expect(pod.securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: Number(user),
      runAsGroup: Number(group),
      fsGroup: Number(group),
    })
    expect(podContainer.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    expect(objects.filter(({ kind }) => kind === 'Secret')).toEqual([])
    expect(podContainer.env.find(({ name }) => name === 'LEASEHOLD_STORE')?.valueFrom).toBeDefined()
    expect(pod.volumes[0].secret.defaultMode).toBe(0o440)
  })

  test('gives a server the time it may take to end, after the time in which calls learn to go elsewhere', () => {
    const [, seconds] = podContainer.lifecycle.preStop.exec.command
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(endsWithinSeconds + Number(seconds))
  })

  test('asks for what a server answers anybody: a dead store makes it not ready, but is no reason to restart it', async () => {
    const { livenessProbe, readinessProbe, startupProbe } = podContainer
    const options = { tokens: JSON.parse(tokens) as [] }
    const fine = await startServer(options)
    const down = around(memory(), { list: () => Promise.reject(new Error('gone')) })
    const broken = await startServer({ ...options, driver: down })
    const status = async (url: string, probe: Probe): Promise<number> => (await fetch(url + probe.httpGet.path)).status
    for (const probe of [livenessProbe, readinessProbe, startupProbe]) {
      expect(probe.httpGet.port).toBe('http')
      expect(await status(fine.url, probe)).toBe(200)
    }
    expect(await status(broken.url, readinessProbe)).toBe(503)
    expect(await status(broken.url, livenessProbe)).toBe(200)
    expect(await status(broken.url, startupProbe)).toBe(200)
  })
})

describe('the health check', () => {
  const checked = (url: string): Promise<number | null> => {
    const env = { ...process.env, LEASEHOLD_HEALTH_URL: url }
    const check = spawn(process.execPath, ['deploy/healthcheck.mjs'], { env, stdio: 'ignore' })
    return new Promise((resolve, reject) => check.on('error', reject).on('exit', resolve))
  }

  test('tells a healthy server from one whose store is down, with TLS too, and from none', async () => {
    const folder = folderForTest('health')
    const { certificateFile, keyFile } = makePrivateCa(folder)
    const fine = await startServer()
    const secure = await startServer({ tls: { cert: readFileSync(certificateFile), key: readFileSync(keyFile) } })
    const down = await startServer({ driver: around(memory(), { list: () => Promise.reject(new Error('gone')) }) })
    const gone = await startServer()
    await gone.close()
    const urls = [fine, secure, down, gone].map(({ url }) => `${url}/healthz`)
    expect(secure.url).toMatch(/^https:/)
    expect(await Promise.all(urls.map(checked))).toEqual([0, 0, 1, 1])
  })
})

describe('as it would run', () => {
  const complaint = complaintAboutContainers()
  const inContainer = (title: string, work: () => Promise<void>): void =>
    test(title, async ({ skip }) => {
      skip(complaint !== undefined, complaint)
      await work()
    })
  const environment = environmentOf(image)
  const directory = allOf(image, 'WORKDIR')[0]?.text ?? ''
  const user = allOf(image, 'USER')[0]?.text ?? ''
  const [userId = 0, groupId = 0] = user.split(':').map(Number)
  const health: Run = { argv: execForm(image, 'HEALTHCHECK'), directory, environment, user }
  let installed: Container

  beforeAll(() => {
    if (complaint !== undefined) return
    installed = new Container()
    install(installed)
    mkdirSync(installed.at(directory), { recursive: true })
    execFileSync('chown', [user, installed.at(directory)])
  })

  afterAll(() => installed?.close())

  /** Starts the image as a container's engine does: read-only, and with a volume for its state. */
  function started(args: readonly string[], variables: Readonly<Record<string, string>>): CommandLine {
    const argv = [...execForm(image, 'ENTRYPOINT'), ...args]
    const setting = { directory, user, isReadOnly: true, volumes: [directory] }
    return installed.start({ argv, environment: { ...environment, ...variables }, ...setting })
  }

  async function expectToServe(running: CommandLine): Promise<void> {
    await installed.healthy(running, health)
    running.kill('SIGTERM')
    const startedAt = performance.now()
    const { code, errors } = await running.ended()
    expect({ code, errors }).toEqual({
      code: 0,
      errors: expect.stringMatching(/closing on SIGTERM[^]*closed/) as string,
    })
    expect((performance.now() - startedAt) / 1000).toBeLessThan(endsWithinSeconds)
  }

  inContainer('the image serves a file in its volume, is healthy, and ends with 0 on its stop signal', async () => {
    installed.write('/run/secrets/tokens', tokens, 0o600, userId, groupId)
    await expectToServe(started(execForm(image, 'CMD'), { LEASEHOLD_TOKENS: '/run/secrets/tokens' }))
    expect(existsSync(installed.at(path.join(directory, 'locks.sqlite')))).toBe(true)
  })

  inContainer('the image does not serve other machines without tokens', async () => {
    const { code, errors } = await started(execForm(image, 'CMD'), {}).ended()
    expect({ code, errors }).toEqual({ code: 64, errors: expect.stringContaining('Give it tokens') as string })
  })

  inContainer('the command of compose.yaml serves, with tokens as docs/deploying.md leaves them', async () => {
    installed.write('/run/secrets/tokens', tokens, 0o640, 0, groupId)
    const variables = { ...server.environment, LEASEHOLD_STORE: 'memory:' }
    await expectToServe(started(server.command, variables))
  })

  inContainer('the arguments of the Kubernetes pod serve, with tokens as Kubernetes mounts them', async () => {
    const variables = Object.fromEntries(podContainer.env.map(({ name, value = 'memory:' }) => [name, value]))
    const [{ secret }] = pod.volumes
    installed.write(
      variables['LEASEHOLD_TOKENS'] ?? '',
      tokens,
      secret.defaultMode,
      0,
      Number(pod.securityContext['fsGroup']),
    )
    await expectToServe(started(podContainer.args, variables))
  })

  inContainer('what systemd starts serves a file in its state directory, with a credential for its user', async () => {
    const unit = unitOf(textOf('deploy/leasehold.service'))
    const state = path.join('/var/lib', unit('StateDirectory')[0] ?? '')
    const credentials = '/run/credentials/leasehold.service'
    const variables = Object.fromEntries(
      unit('Environment')
        .flatMap((line) => line.split(' '))
        .map((word) => word.replace('%S', '/var/lib').replace('%d', credentials).split('=') as [string, string]),
    )
    installed.write(path.join(credentials, 'tokens.json'), tokens, 0o440, 0, groupId)
    // systemd splits a variable into words, and takes an empty one away.
    const argv =
      unit('ExecStart')[0]
        ?.split(' ')
        .filter((word) => word !== '$SERVE_OPTIONS') ?? []
    const setting = { directory: '/', user, isReadOnly: true, volumes: [state] }
    await expectToServe(installed.start({ argv, environment: variables, ...setting }))
    expect(existsSync(installed.at(path.join(state, 'locks.sqlite')))).toBe(true)
  })
})

describe('deploy/leasehold.service', () => {
  const systemd = needProgram('systemd-analyze', ['systemd'])
  const folder = makeFolder('unit')
  const file = path.join(folder, 'leasehold.service')
  // systemd looks for the program, too.
  writeFileSync(file, textOf('deploy/leasehold.service').replace(/^ExecStart=\S+/m, `ExecStart=${process.execPath}`))
  afterAll(() => removeFolder(folder))

  test('is a unit that systemd takes without a word', () => {
    const { status, stdout, stderr } = spawnSync(systemd, ['verify', '--man=no', file], { encoding: 'utf8' })
    expect({ status, said: stdout + stderr }).toEqual({ status: 0, said: '' })
  })

  test('leaves little to an intruder, by the measure of systemd', () => {
    const args = ['security', '--offline=true', '--threshold=20', '--no-pager', file]
    const { status, stdout, stderr } = spawnSync(systemd, args, { encoding: 'utf8' })
    expect(status, stdout + stderr).toBe(0)
  })

  test('waits for as long as a server may take to end, and does not restart what is wrongly configured', () => {
    const unit = unitOf(textOf('deploy/leasehold.service'))
    expect(Number(unit('TimeoutStopSec')[0])).toBeGreaterThan(endsWithinSeconds)
    expect(unit('RestartPreventExitStatus')).toEqual(['64'])
    expect(unknownFlags(unit('ExecStart')[0]?.split(' ') ?? [])).toEqual([])
  })
})

/** The values of a setting of a unit file, in order. */
function unitOf(text: string): (name: string) => string[] {
  const settings = [...text.matchAll(/^(\w+)=(.*)$/gm)]
  return (name) => settings.flatMap(([, each, value = '']) => (each === name ? [value] : []))
}

/** Does what the Dockerfile does with the tarball, and with the health check. Node below 22.13 has no SQLite of its own. */
function install(container: Container): void {
  const modules = container.at('/opt/leasehold/node_modules')
  const place = path.join(modules, 'leasehold')
  for (const folder of [place, path.join(modules, '.bin')]) mkdirSync(folder, { recursive: true })
  const packing = ['pack', '--ignore-scripts', '--silent', '--pack-destination', container.at('/tmp')]
  const tarball = execFileSync('npm', packing, { encoding: 'utf8' }).trim()
  execFileSync('tar', ['xzf', path.join(container.at('/tmp'), tarball), '--strip-components=1', '-C', place])
  const { bin } = JSON.parse(textOf(path.join(place, 'package.json'))) as { bin: { leasehold: string } }
  symlinkSync(path.join('../leasehold', bin.leasehold), path.join(modules, '.bin/leasehold'))
  for (const name of ['@photostructure/sqlite', 'node-gyp-build']) {
    cpSync(path.join('node_modules', name), path.join(modules, name), { recursive: true })
  }
  cpSync('deploy/healthcheck.mjs', container.at('/opt/leasehold/healthcheck.mjs'))
}
