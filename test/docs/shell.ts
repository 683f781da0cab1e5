import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

/** Only a block that hangs takes so long. */
const secondsPerBlockMax = 100

/** Runs a command as a reader would: in an empty directory of its own, with a home and a state of its own. */
export async function runApart(command: string, args: readonly string[]): Promise<{ ok: boolean; output: string }> {
  const home = makeFolder('docs')
  const cwd = path.join(home, 'work')
  const commands = path.join(home, 'bin')
  mkdirSync(cwd)
  mkdirSync(commands)
  const cli = `exec '${process.execPath}' '${path.resolve('dist/node/cli.js')}' "$@"`
  writeCommand(path.join(commands, 'leasehold'), cli)
  writeCommand(
    path.join(commands, 'npx'),
    `[ "$1" = leasehold ] || { echo "npx $1: only leasehold"; exit 1; }; shift; ${cli}`,
  )

  const { VITEST: _vitest, NODE_ENV: _environment, NODE_OPTIONS: _options, ...inherited } = process.env
  const env = {
    ...inherited,
    PATH: `${commands}${path.delimiter}${process.env['PATH']}`,
    HOME: home,
    XDG_STATE_HOME: path.join(home, 'state'),
    LEASEHOLD_STATE_DIR: path.join(home, 'state/leasehold'),
  }
  try {
    return await run(command, args, { cwd, env })
  } finally {
    removeFolder(home)
  }
}

/** The process gets a group of its own, so that what it left in the background ends with it. */
async function run(command: string, args: readonly string[], place: { cwd: string; env: NodeJS.ProcessEnv }) {
  const child = spawn(command, args, { ...place, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const endGroup = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // The whole group has ended by itself.
    }
  }
  const timer = setTimeout(() => {
    output += `\nStopped after ${secondsPerBlockMax} s.`
    endGroup()
  }, secondsPerBlockMax * 1000)

  return new Promise<{ ok: boolean; output: string }>((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', endGroup)
    child.on('close', (code) => {
      clearTimeout(timer)
      resolve({ ok: code === 0, output })
    })
  })
}

/** What of a line is run: all of it, but for npm's own commands at its beginning, which are read and not run. */
export function withoutNpm(line: string): string {
  return line.replace(/^(?:npm [^&]*(?:&&\s*|$))+/, '')
}

/** What is wrong with the npm commands a line begins with, or nothing. */
export function complaintAboutNpm(line: string, scripts: Record<string, string>): string | undefined {
  const commands =
    /^(install|i|ci|test|start|pack|publish|exec|init|link|uninstall|update|version|audit|ls|view|config)$/
  for (const part of line.split('&&').map((each) => each.trim())) {
    const [tool, command = '', script = ''] = part.split(/\s+/)
    if (tool !== 'npm') return undefined
    if (command === 'run' || command === 'test') {
      const name = command === 'run' ? script : 'test'
      if (!(name in scripts)) return `package.json has no script "${name}".`
    } else if (!commands.test(command)) return `npm has no command "${command}".`
  }
  return undefined
}

function writeCommand(file: string, script: string) {
  writeFileSync(file, `#!/bin/sh\n${script}\n`)
  chmodSync(file, 0o755)
}
