// Makes the pictures of the terminal in docs/pictures: `npm run docs:pictures`. Runs the built command line in tmux, on a Redis of its own
// in the state that test/support/operators-mess.ts makes.
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { terminalPicture } from './terminal-picture.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = path.join(root, 'docs/pictures')
const built = (file) => import(path.join(root, '.build/test/support', file))

const pictures = [
  { name: 'ls', title: 'leasehold ls', rows: 16, command: 'leasehold ls --sort waiting | head -12' },
  { name: 'watch', title: 'leasehold watch', rows: 24, command: 'leasehold watch' },
  { name: 'explain', title: 'leasehold explain', rows: 44, command: 'leasehold explain' },
]
const columns = 104
/** Long enough for the second reading that finds deadlocks. */
const shownWithinMs = 3000
/** The abandoned lease is silent from 28 s to 40 s after the mess was made. */
const silentAfterMs = 29_000

const { RedisServer } = await built('redis-server.js')
const { makeMess } = await built('operators-mess.js')
const redis = await RedisServer.start()
try {
  const mess = await makeMess(redis.url)
  try {
    await pause(silentAfterMs)
    mkdirSync(folder, { recursive: true })
    for (const { name, title, rows, command } of pictures) {
      const screen = await capture(command, rows, redis.url)
      const same = withoutThisMachine(screen, redis.url)
      for (const theme of ['light', 'dark']) {
        writeFileSync(path.join(folder, `${name}-${theme}.svg`), terminalPicture(same, theme, title))
      }
    }
  } finally {
    await mess[Symbol.asyncDispose]()
  }
} finally {
  await redis.stop()
}

/** What a terminal shows a while after the command was typed. */
async function capture(command, rows, url) {
  const socket = path.join(root, '.build/pictures.tmux')
  const tmux = (...args) => execFileSync('tmux', ['-S', socket, '-f', '/dev/null', ...args], { encoding: 'utf8' })
  rmSync(socket, { force: true })
  const shell = `env LANG=C.UTF-8 LC_ALL=C.UTF-8 LEASEHOLD_STORE=${url} FORCE_COLOR=1 PS1='$ ' bash --norc --noprofile`
  tmux('new-session', '-d', '-s', 'picture', '-x', String(columns), '-y', String(rows), shell)
  try {
    tmux(
      'send-keys',
      '-t',
      'picture',
      `leasehold() { node '${path.join(root, 'dist/node/cli.js')}' "$@"; }; clear`,
      'Enter',
    )
    await pause(500)
    tmux('send-keys', '-t', 'picture', command, 'Enter')
    await pause(shownWithinMs)
    const screen = tmux('capture-pane', '-e', '-p', '-t', 'picture')
    // The prompt after the command.
    // eslint-disable-next-line no-control-regex -- SGR sequences
    return screen.trimEnd().replace(/\n(?:\u001b\[[\d;]*m)*\$$/, '')
  } finally {
    tmux('kill-server')
  }
}

/** Without the name of this machine, and with a store that a reader might have. Widths stay the same, or the end of a line moves. */
function withoutThisMachine(screen, url) {
  return screen.replaceAll(url, 'redis://127.0.0.1:6379')
}
