/** Builds the image as the Dockerfile says, without Docker: every COPY and RUN, from the repository to what is started. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { complaintAboutContainers, Container } from '../deploy/container.ts'
import {
  allOf,
  environmentOf,
  execForm,
  isLetThrough,
  stagesOf,
  type Instruction,
  type Stage,
} from '../deploy/dockerfile.ts'

/** Of the built image, all folders of node_modules. */
const packages = (image: Container): string[] =>
  readdirSync(image.at('/opt/leasehold/node_modules')).filter((name) => !name.startsWith('.'))

test('the image is built of what the Dockerfile copies, holds the wanted clients only, and serves', async ({
  skip,
}) => {
  const complaint = complaintAboutContainers()
  skip(complaint !== undefined, complaint)
  const built = new Map<string, Container>()
  onTestFinished(async () => void (await Promise.all([...built.values()].map((each) => each.close()))))
  const stages = stagesOf('Dockerfile')
  for (const stage of stages) built.set(stage.name, await build(stage, built))

  const last = stages.at(-1) as Stage
  const image = built.get(last.name) as Container
  expect(packages(image)).toEqual(expect.arrayContaining(['leasehold', 'pg']))
  expect(
    packages(image).filter((name) => !/^(leasehold|pg(-.*)?|pgpass|postgres-.*|split2|xtend)$/.test(name)),
  ).toEqual([])

  const user = allOf(last, 'USER')[0]?.text ?? ''
  const directory = allOf(last, 'WORKDIR')[0]?.text ?? ''
  const { uid, gid } = statSync(image.at(directory))
  expect(`${uid}:${gid}`).toBe(user)
  const tokens = [{ name: 'ci', token: 'c'.repeat(20), namespaces: '*', rights: ['lock'] }]
  image.write('/run/secrets/tokens', JSON.stringify(tokens), 0o600, uid, gid)
  const stores = { LEASEHOLD_STORE: 'memory:', LEASEHOLD_TOKENS: '/run/secrets/tokens' }
  const run = { directory, user, environment: { ...environmentOf(last), ...stores }, isReadOnly: true }
  const server = image.start({ ...run, argv: [...execForm(last, 'ENTRYPOINT'), ...execForm(last, 'CMD')] })
  await image.healthy(server, { ...run, argv: execForm(last, 'HEALTHCHECK') })
  server.kill('SIGTERM')
  expect((await server.ended()).code).toBe(0)
}, 600_000)

async function build(stage: Stage, built: ReadonlyMap<string, Container>): Promise<Container> {
  const container = new Container()
  let directory = '/'
  for (const instruction of stage.instructions) {
    if (instruction.name === 'WORKDIR') {
      directory = instruction.text
      mkdirSync(container.at(directory), { recursive: true })
    } else if (instruction.name === 'COPY') copy(instruction, container, directory, built)
    else if (instruction.name === 'RUN') {
      const environment = { ...environmentOf(stage), npm_config_update_notifier: 'false' }
      const run = container.start({ argv: ['sh', '-c', instruction.text], directory, environment, isOnline: true })
      const { code, output, errors } = await run.ended()
      expect(code, `${instruction.text}\n${output}${errors}`).toBe(0)
    }
  }
  return container
}

/** A folder's content, or files, into a folder if several are named or the place ends with a slash. */
function copy(
  { text, flags }: Instruction,
  into: Container,
  directory: string,
  built: ReadonlyMap<string, Container>,
): void {
  const sources = text.split(' ')
  const place = path.posix.resolve(directory, sources.at(-1) ?? '')
  const isFolder = sources.length > 2 || text.endsWith('/')
  const from = built.get(flags['from'] ?? '')
  for (const source of sources.slice(0, -1)) {
    const file = from === undefined ? source : from.at(source)
    expect(existsSync(file), `${file} of ${text}`).toBe(true)
    const target = isFolder && statSync(file).isFile() ? path.posix.join(place, path.basename(file)) : place
    const isLet = (each: string): boolean => statSync(each).isDirectory() || isLetThrough(each)
    cpSync(file, into.at(target), {
      recursive: true,
      verbatimSymlinks: true,
      ...(from === undefined && { filter: isLet }),
    })
    if (flags['chown'] === undefined) continue
    for (const name of readdirSync(file)) execFileSync('chown', ['-R', flags['chown'], path.join(into.at(place), name)])
  }
}
