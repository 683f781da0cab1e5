/** The command line at a real terminal (tmux), on real stores. Needs the build in dist. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/index.ts'
import { eventually } from '../support/eventually.ts'
import { isLong } from '../support/extent.ts'
import { makeMess, type Mess } from '../support/operators-mess.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { Tmux } from '../support/tmux.ts'

let redis: RedisServer

beforeAll(async () => {
  redis = await RedisServer.start()
})
afterAll(() => redis.stop())

/** A terminal in which `leasehold` uses the store. */
function terminal(options: { columns?: number; rows?: number; namespace?: string; url?: string } = {}): Promise<Tmux> {
  const { namespace = 'default', url = redis.url, ...size } = options
  return Tmux.start({ ...size, variables: { LEASEHOLD_STORE: url, LEASEHOLD_NAMESPACE: namespace } })
}

/** The process id of the command line that a terminal's shell runs. */
async function pidOf(tmux: Tmux, pattern: string): Promise<number> {
  return eventually(() => {
    const found = execFileSync('ps', ['-eo', 'pid=,args='], { encoding: 'utf8' })
      .split('\n')
      .find((line) => line.includes('cli.js') && line.includes(pattern) && !line.includes('tmux'))
    return found === undefined ? undefined : Number(found.trim().split(' ')[0])
  }, `${pattern} in ${tmux.folder}`)
}

describe('watch on a terminal', () => {
  test('is moved through, sorted and searched by keys, and gives the screen back', async () => {
    await using locks = await connect(redis.url, { namespace: 'keys', metadata: { service: 'billing' } })
    for (const name of ['apple', 'banana', 'cherry']) await locks.acquire(name)
    await using tmux = await terminal({ namespace: 'keys' })
    await tmux.type('leasehold watch --sort name')
    await tmux.shows(/> .*apple .*billing[^]*banana[^]*cherry/)
    expect(await tmux.isAlternate()).toBe(true)
    await tmux.keys('j')
    await tmux.shows(/> .*banana/)
    await tmux.keys('Down')
    await tmux.shows(/> .*cherry/)
    await tmux.keys('k', 'Up')
    await tmux.shows(/> .*apple/)
    await tmux.keys('s')
    await tmux.shows(/s: sort \(age\)/)
    await tmux.keys('/', 'a', 'n', 'Enter')
    const found = await tmux.shows(/showing \/an/)
    expect(found).toContain('banana')
    expect(found).not.toContain('cherry')
    await tmux.keys('Enter')
    await tmux.shows(/banana \(keys\/named:banana\)[^]*held by/)
    await tmux.keys('Escape')
    await tmux.shows(/> .*banana/)
    await tmux.keys('q')
    const left = await tmux.shows(/^ready> leasehold watch --sort name\nready>/)
    expect(left).not.toContain('banana')
    expect([await tmux.isAlternate(), await tmux.hasCursor()]).toEqual([false, true])
  })

  test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('gives the screen back when it gets %s', async (signal) => {
    const namespace = `ends-${signal}`
    await using tmux = await terminal({ namespace })
    await tmux.type(`leasehold watch --namespace ${namespace}; echo "code $?"`)
    await tmux.shows(/0 locks/)
    process.kill(await pidOf(tmux, namespace), signal)
    await tmux.shows(new RegExp(`code ${{ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }[signal]}`))
    expect([await tmux.isAlternate(), await tmux.hasCursor()]).toEqual([false, true])
  })

  test('gives the screen back when it crashes, and the error is read there', async () => {
    await using tmux = await terminal({ namespace: 'crash' })
    const crash = path.join(tmux.folder, 'crash.mjs')
    writeFileSync(crash, `process.on('SIGUSR2', () => { throw new Error('it broke') })`)
    await tmux.type(`NODE_OPTIONS=--import=${crash} leasehold watch --namespace crash; echo "code $?"`)
    await eventually(() => tmux.isAlternate(), 'the screen is taken')
    process.kill(await pidOf(tmux, 'watch --namespace crash'), 'SIGUSR2')
    const screen = await tmux.shows(/code 1/)
    expect(screen).toContain('Error: it broke')
    expect([await tmux.isAlternate(), await tmux.hasCursor()]).toEqual([false, true])
    // The terminal echoes again.
    await tmux.type('echo still-$((1 + 1))-here')
    await tmux.shows(/ready> echo still-\$\(\(1 \+ 1\)\)-here\nstill-2-here/)
  })

  test('is suspended by Ctrl-Z and by a signal, and resumed', async () => {
    await using tmux = await terminal({ namespace: 'suspended' })
    await tmux.type('leasehold watch')
    await tmux.shows(/0 locks/)
    for (const suspend of [() => tmux.keys('C-z'), async () => process.kill(await pidOf(tmux, 'watch'), 'SIGTSTP')]) {
      await suspend()
      await tmux.shows(/Stopped/)
      expect([await tmux.isAlternate(), await tmux.hasCursor()]).toEqual([false, true])
      await tmux.type('clear; fg')
      await tmux.shows(/0 locks/)
      expect(await tmux.isAlternate()).toBe(true)
    }
    await tmux.keys('C-c')
    await eventually(async () => !(await tmux.isAlternate()), 'the screen is given back')
  })

  test('fits a terminal of any size, with wide characters cut and not halved', async () => {
    await using locks = await connect(redis.url, { namespace: 'sizes' })
    await locks.acquire(`請求書/${'長い名前'.repeat(12)}`)
    await locks.acquire(`🔒${'very-'.repeat(30)}long`)
    await using tmux = await terminal({ namespace: 'sizes' })
    await tmux.type('leasehold watch')
    await tmux.shows(/請求書/)
    for (const [columns, rows] of [
      [60, 12],
      [33, 8],
      [140, 40],
    ] as const) {
      await tmux.resize(columns, rows)
      // The title is on the first line and the keys are on the last: nothing has wrapped or scrolled.
      const screen = await eventually(async () => {
        const lines = (await tmux.screen()).replace(/\n$/, '').split('\n')
        const isDrawn =
          lines.length === rows && lines[0]?.startsWith(' leasehold watch') && lines.at(-1)?.includes('j k: move')
        return isDrawn === true && lines
      }, `the screen of ${columns} columns`)
      const named = screen.filter((line) => /請求書|🔒/.test(line))
      expect(named).toHaveLength(2)
      if (columns < 100) for (const line of named) expect(line).toContain('…')
      expect(screen[3]).toContain('WAITING')
    }
    await tmux.keys('q')
  })

  test('says that the store is away, and goes on when it is back', async () => {
    const own = await RedisServer.start({ settings: { appendonly: 'yes' } })
    try {
      await using tmux = await terminal({ url: own.url })
      await tmux.type('leasehold watch')
      await tmux.shows(/0 locks/)
      await own.kill()
      const away = await tmux.shows(/The store does not answer since \d\d:\d\d:\d\d: trying again every second/)
      expect(away).toContain('0 locks')
      await own.start()
      await using locks = await connect(own.url)
      await locks.acquire('after-the-fall')
      const back = await tmux.shows(/after-the-fall/)
      expect(back).not.toContain('does not answer')
      await tmux.keys('q')
    } finally {
      await own.stop()
    }
  })

  test('says what is wrong with a store that was never there, on the screen as it was', async () => {
    await using tmux = await terminal({ url: 'redis://127.0.0.1:1' })
    await tmux.type('leasehold watch; echo "code $?"')
    const screen = await tmux.shows(/code 69/)
    expect(screen).toMatch(/leasehold: .*127\.0\.0\.1:1/)
    expect(await tmux.isAlternate()).toBe(false)
  })
})

test('run rewrites its waiting line in place, with the place, the holder and the time', async () => {
  await using locks = await connect(redis.url, { namespace: 'runs', metadata: { service: 'billing' } })
  const lease = await locks.acquire('nightly')
  await using tmux = await terminal({ namespace: 'runs', columns: 120 })
  await tmux.type('leasehold run nightly -- echo done-$((1 + 1))')
  const line = /leasehold: waiting (\d+) m?s for "nightly", next in line; held for \d+s by billing, host .*/
  const first = line.exec(await tmux.shows(line))?.[0]
  const second = await eventually(async () => {
    const now = line.exec(await tmux.screen())?.[0]
    return now !== first && now
  }, 'the line counts on')
  expect(second).toMatch(line)
  expect((await tmux.screen()).match(/waiting/g)).toHaveLength(1)
  await lease.release()
  await tmux.shows(/done-2/)
  // Two processes write to the terminal: either may be first.
  const screen = await tmux.shows(/leasehold: granted after \d/)
  expect(screen).not.toContain('waiting')
})

test('a lock whose process was killed is called silent by ls, explain and watch', async () => {
  const program = `
    const { connect } = await import('${path.resolve('dist/node/index.js')}')
    const locks = await connect('${redis.url}', { namespace: 'killed', metadata: { service: 'importer' } })
    await locks.acquire('doomed', { ttl: '5s' })
    console.log('held')
    setInterval(() => {}, 1000)`
  const holder = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void holder.kill('SIGKILL'))
  await once(holder.stdout, 'data')
  holder.kill('SIGKILL')
  await using tmux = await terminal({ namespace: 'killed', columns: 120 })
  await eventually(async () => {
    await tmux.type('clear; leasehold ls; leasehold explain; echo "code $?"')
    const screen = await tmux.shows(/code 0/)
    return /✗ +doomed .*importer/.test(screen) && /the holder is dead[^]*doomed[^]*importer/.test(screen)
  }, 'the lock is called silent')
  await tmux.type('clear; leasehold watch')
  const screen = await tmux.shows(/1 not renewed/)
  expect(screen).toMatch(/✗ +doomed/)
  await tmux.keys('Enter')
  await tmux.shows(new RegExp(`pid ${holder.pid}`))
  await tmux.keys('q')
})

test('colours go to a terminal, unless they are not wanted', async () => {
  await using locks = await connect(redis.url, { namespace: 'colours' })
  await locks.acquire('nightly')
  await using tmux = await terminal({ namespace: 'colours', rows: 60 })
  const escape = String.fromCharCode(27)
  let shown = 0
  const shownBy = async (command: string): Promise<string> => {
    shown += 1
    // Computed by the shell: what is typed does not contain it, nor does the screen before.
    await tmux.type(`clear; ${command}; echo "shown $((${shown} + 100))"`)
    await tmux.shows(new RegExp(`shown ${shown + 100}`))
    return tmux.screen(true)
  }
  expect(await shownBy('leasehold ls')).toContain(`${escape}[1mNAME`)
  for (const plain of [
    'leasehold ls --color never',
    'NO_COLOR=1 leasehold ls',
    'TERM=dumb leasehold ls',
    'leasehold ls | cat',
  ]) {
    const screen = await shownBy(plain)
    expect(screen).toContain('NAME')
    expect(screen).not.toContain(escape)
  }
  for (const coloured of ['FORCE_COLOR=1 leasehold ls | cat', 'NO_COLOR=1 leasehold ls --color always | cat']) {
    expect(await shownBy(coloured)).toContain(`${escape}[1mNAME`)
  }
})

describe.each(isLong ? (['redis', 'postgres'] as const) : (['redis'] as const))('a mess on %s', (kind) => {
  let url: string
  let mess: Mess
  let postgres: PostgresServer | undefined

  beforeAll(async () => {
    postgres = kind === 'postgres' ? await PostgresServer.start() : undefined
    url = postgres?.url ?? redis.url
    mess = await makeMess(url)
  })
  afterAll(async () => {
    await mess[Symbol.asyncDispose]()
    await postgres?.stop()
  })

  test('one command says who blocks what, since when, and what to do', async () => {
    await using tmux = await terminal({ url, columns: 130, rows: 60 })
    await tmux.type('leasehold explain; echo "code $?"')
    const screen = await tmux.shows(/code 0/)
    expect(screen).toMatch(/DEADLOCK of 2/)
    expect(screen).toMatch(
      /billing \(deploy\), owner transfer-7-to-42, host \S+, pid \d+\n +waits for accounts\/42 since [^\n]+\n +and holds accounts\/7, fence \d+/,
    )
    expect(screen).toMatch(/mailer \(deploy\), owner statement-42, host [^\n]+\n +waits for accounts\/7 since/)
    expect(screen).toMatch(/leasehold evict accounts\/\d+ --fence \d+ --reason TEXT/)
    expect(screen).toMatch(
      new RegExp(
        `${mess.contended.name}, ${mess.contended.waiting} waiting, the longest for \\d+s\n +held for \\d+s by reports \\(alice\\)`,
      ),
    )
    expect(screen.indexOf('DEADLOCK')).toBeLessThan(screen.indexOf(mess.contended.name))
  })

  test('the live view shows the longest queue first, and the deadlock', async () => {
    await using tmux = await terminal({ url, columns: 110, rows: 24 })
    await tmux.type('leasehold watch')
    const screen = await tmux.shows(/1 deadlock/)
    expect(screen).toContain(`${mess.locks} locks`)
    expect(screen).toMatch(new RegExp(`WAITING\n> ▲ +${mess.contended.name} .* ${mess.contended.waiting}\n`))
    for (const name of ['accounts/7', 'accounts/42']) expect(screen).toMatch(new RegExp(`⟳ +${name} `))
    expect(screen).toMatch(/DEADLOCK over accounts\/(?:7, accounts\/42|42, accounts\/7)/)
    await tmux.keys('/', 'a', 'c', 'c', 'o', 'u', 'n', 't', 's', 'Enter', 'Enter')
    await tmux.shows(/owner\s+(?:statement-42|transfer-7-to-42)[^]*DEADLOCK of 2/)
    await tmux.keys('q')
  })

  test('an empty namespace names the others', async () => {
    await using tmux = await terminal({ url, namespace: 'nobody' })
    await tmux.type('leasehold ls; leasehold ls -A | wc -l')
    const screen = await tmux.shows(/^\s*\d{3}$/m)
    expect(screen).toMatch(/other namespaces have locks: .*default.*staging.*tools.*\. See leasehold ls -A/)
  })

  test('the documents of all formats say the same', async () => {
    await using tmux = await terminal({ url, rows: 200 })
    await tmux.type('for as in json yaml name; do leasehold ls catalog -o $as; done')
    const screen = await tmux.shows(/\ncatalog\n/)
    expect(screen).toContain('"name":"catalog"')
    expect(screen).toContain('name: "catalog"')
  })

  test('a holder that no longer renews is called silent', async () => {
    await using tmux = await terminal({ url, columns: 130, rows: 60 })
    await eventually(async () => {
      await tmux.type('clear; leasehold explain; echo "code $?"')
      const screen = await tmux.shows(/code 0/)
      return /not renewed: the holder is dead[^]*nightly-backup, 1 waiting[^]*backup \(deploy\), host [^\n]*last renewed \d+s ago/.test(
        screen,
      )
    }, 'the abandoned lock is called silent')
  })
})
