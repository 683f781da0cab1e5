/** Completions in the shells themselves, and manual pages as man shows them. Needs the build in dist. */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { commands } from '../../src/cli/command-line.ts'
import { connect, named } from '../../src/index.ts'
import { needProgram } from '../support/debian.ts'
import { folderForTest } from '../support/test-folder.ts'
import { Tmux } from '../support/tmux.ts'

const cli = path.resolve('dist/node/cli.js')

/** A folder with a store, and `leasehold` on the path. */
function workshop() {
  const folder = folderForTest('completion')
  const bin = path.join(folder, 'bin')
  mkdirSync(bin)
  writeFileSync(path.join(bin, 'leasehold'), `#!/bin/sh\nexec '${process.execPath}' '${cli}' "$@"\n`)
  chmodSync(path.join(bin, 'leasehold'), 0o755)
  const store = `sqlite:${path.join(folder, 'locks.sqlite')}`
  const env = {
    ...process.env,
    PATH: `${bin}${path.delimiter}${process.env['PATH']}`,
    LEASEHOLD_STORE: store,
    LEASEHOLD_NAMESPACE: 'default',
    HOME: folder,
  }
  const run = (program: string, ...args: string[]): string =>
    execFileSync(program, args, { cwd: folder, env, encoding: 'utf8', stdio: 'pipe' })
  return { folder, bin, store, run }
}

/** What bash offers after these words, the last of which is being typed. */
function offered(run: ReturnType<typeof workshop>['run'], ...words: string[]): string[] {
  const script = `
    source <(leasehold completion bash)
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=\${#COMP_LINE}
    _leasehold
    printf '%s\\n' "\${COMPREPLY[@]}"`
  return run('bash', '-c', script, 'bash', 'leasehold', ...words)
    .trimEnd()
    .split('\n')
}

describe('bash', () => {
  test('offers commands, options, words and files', () => {
    const { folder, run } = workshop()
    writeFileSync(path.join(folder, 'deploy.proof'), '')
    expect(offered(run, '')).toEqual([...commands.map(({ name }) => name), '--help', '--version'])
    expect(offered(run, 're')).toEqual(['renew', 'release'])
    expect(offered(run, 'run', 'nightly', '--p')).toEqual(['--permits', '--priority'])
    expect(offered(run, 'ls', '-o', '')).toEqual(['wide', 'json', 'yaml', 'name'])
    expect(offered(run, 'ls', '--output', 'y')).toEqual(['yaml'])
    expect(offered(run, 'explain', '--kind', 'i')).toEqual(['inode', 'issue'])
    expect(offered(run, 'renew', '--proof', 'dep')).toEqual(['deploy.proof'])
    expect(offered(run, 'completion', '')).toEqual(['bash', 'zsh', 'fish'])
    expect(offered(run, 'run', 'nightly', '--ttl', '')).toEqual([''])
    expect(offered(run, 'run', 'nightly', '--', 'unam')).toContain('uname')
  })

  test('offers the names of locks, and runs none of them', async () => {
    const { folder, store, run } = workshop()
    await using locks = await connect(store)
    const evil = '$(touch pwned)`touch pwned`'
    for (const name of ['nightly', 'night shift', evil]) await locks.acquire(named(name))
    expect(offered(run, 'explain', 'nigh').toSorted()).toEqual(['night\\ shift', 'nightly'])
    expect(offered(run, 'evict', '$')).toHaveLength(1)
    expect(existsSync(path.join(folder, 'pwned'))).toBe(false)
  })

  test('offers the names of the store and the namespace on the line', async () => {
    const { folder, run } = workshop()
    const other = `sqlite:${path.join(folder, 'other.sqlite')}`
    await using locks = await connect(other, { namespace: 'staging' })
    await locks.acquire('release')
    const where = ['--store', other, '--namespace', 'staging']
    expect(offered(run, 'explain', ...where, '')).toEqual(['release'])
    expect(offered(run, 'explain', `--store=${other}`, '--namespace=staging', 're')).toEqual(['release'])
    expect(offered(run, 'explain', '')).toEqual([''])
  })

  test('completes what is typed at a terminal', async () => {
    const { folder, run } = workshop()
    const script = path.join(folder, 'completions')
    writeFileSync(script, run('leasehold', 'completion', 'bash'))
    const typed = spawnSync('bash', ['--norc', '-i'], {
      input: `source '${script}'; complete -p leasehold\n`,
      encoding: 'utf8',
      cwd: folder,
    })
    expect(typed.stdout).toContain('complete -F _leasehold leasehold')
  })
})

describe.each([
  ['zsh', 'zsh'],
  ['fish', 'fish'],
] as const)('%s', (shell, debianPackage) => {
  test('takes the script', () => {
    const { folder, run } = workshop()
    const program = needProgram(shell, [debianPackage])
    const script = path.join(folder, `leasehold.${shell}`)
    writeFileSync(script, run('leasehold', 'completion', shell))
    const { status, stderr } = spawnSync(program, ['-n', script], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
  })
})

test('fish offers commands and options', () => {
  const { folder, run } = workshop()
  const program = needProgram('fish', ['fish'])
  const script = path.join(folder, 'leasehold.fish')
  writeFileSync(script, run('leasehold', 'completion', 'fish'))
  const complete = (line: string): string => run(program, '-c', `source ${script}; complete -C '${line}'`)
  expect(complete('leasehold ru')).toMatch(/^run\t/m)
  expect(complete('leasehold ls --out')).toMatch(/^--output\t/m)
  expect(complete('leasehold ls --output ')).toMatch(/^yaml/m)
})

describe('the Tab key, where a lock is called $(touch pwned)', () => {
  const evil = '$(touch pwned)`touch pwned`;touch pwned \'"'

  test.each([
    ['bash', 'bash --norc', `PS1='$ '; source <(leasehold completion bash)`],
    ['zsh', 'zsh -f', `PS1='$ '; autoload -U compinit; compinit -D; source <(leasehold completion zsh)`],
  ])('in %s inserts it as one word that runs nothing', async (shell, start, setUp) => {
    const { folder, bin, store } = workshop()
    needProgram(shell, [shell])
    await using locks = await connect(store, { namespace: 'evil' })
    await locks.acquire(evil)
    const variables = { LEASEHOLD_STORE: store, PATH: `${bin}${path.delimiter}${process.env['PATH']}`, HOME: folder }
    await using tmux = await Tmux.start({ variables, columns: 200 })
    await tmux.type(`unset -f leasehold; cd '${folder}'; ${start}`)
    await tmux.type(`${setUp}; clear; echo "set $((1 + 1))"`)
    await tmux.shows(/^set 2/m)
    await tmux.keys('leasehold', 'Space', 'expl', 'Tab')
    // The terminal's copy has no spaces at the ends of lines.
    await tmux.shows(/leasehold explain$/m)
    await tmux.keys(...'--namespace'.split(''), 'Space', ...'evil'.split(''), 'Space', 'Tab')
    await tmux.shows(/--namespace evil \\\$\\\(touch\\ pwned\\\)/)
    await tmux.keys('Enter')
    await tmux.shows(/held by/)
    expect(existsSync(path.join(folder, 'pwned'))).toBe(false)
  })

  test('in fish offers it as it is called', async () => {
    const { folder, store, run } = workshop()
    const program = needProgram('fish', ['fish'])
    await using locks = await connect(store, { namespace: 'evil' })
    await locks.acquire(evil)
    const script = path.join(folder, 'leasehold.fish')
    writeFileSync(script, run('leasehold', 'completion', 'fish'))
    const complete = `source ${script}; complete -C 'leasehold explain --namespace evil '`
    expect(run(program, '-c', complete)).toContain(evil)
    expect(existsSync(path.join(folder, 'pwned'))).toBe(false)
  })
})

describe('a manual page', () => {
  let man: string

  beforeAll(() => {
    needProgram('groff', ['groff'])
    man = needProgram('man', ['man-db'])
  })

  test.each(commands.map((command) => [command.name, command] as const))('of %s is read by man', (name, command) => {
    const { folder, run } = workshop()
    run('leasehold', 'man', '--to', folder)
    const page = path.join(folder, `leasehold-${name}.1`)
    const env = { ...process.env, MANWIDTH: '100', LC_ALL: 'C.UTF-8', MANROFFOPT: '-ww' }
    const { stdout, stderr } = spawnSync(man, ['--warnings', '-P', 'cat', '-l', page], { encoding: 'utf8', env })
    expect(stderr).toBe('')
    // eslint-disable-next-line no-control-regex -- bold by overstriking
    const text = stdout.replaceAll(/.\u0008/g, '')
    expect(text).toMatch(new RegExp(`NAME\n +leasehold-${name} - ${command.summary.slice(0, 20)}`))
    for (const option of Object.keys(command.options)) expect(text).toContain(`--${option}`)
    // The first example, as it is to be typed.
    const [, example = ''] = /Examples:\n {2}(.*)/.exec(command.help) ?? []
    expect(text).toContain(example)
  })

  test('of the program lists every command', () => {
    const { run } = workshop()
    const page = run('leasehold', 'man')
    const { stdout } = spawnSync(man, ['-P', 'cat', '-l', '-'], { input: page, encoding: 'utf8' })
    // eslint-disable-next-line no-control-regex -- bold by overstriking
    const text = stdout.replaceAll(/.\u0008/g, '')
    for (const { name } of commands) expect(text).toContain(`leasehold-${name}(1)`)
  })
})
