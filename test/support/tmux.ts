/** A real terminal without a window: tmux, with a shell in it that may say `leasehold`. */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { needProgram } from './debian.ts'
import { eventually } from './eventually.ts'
import { makeFolder, removeFolder } from './scratch-folder.ts'

/** Far more than any program takes to draw. */
const shownWithinMs = 20_000

export interface TmuxOptions {
  readonly columns?: number
  readonly rows?: number
  /** Environment variables of the shell. */
  readonly variables?: Readonly<Record<string, string>>
}

export class Tmux implements AsyncDisposable {
  readonly folder = makeFolder('tmux')
  readonly #program = needProgram('tmux', ['tmux'])

  static async start({ columns = 100, rows = 30, variables = {} }: TmuxOptions = {}): Promise<Tmux> {
    const tmux = new Tmux()
    const cli = `leasehold() { '${process.execPath}' '${path.resolve('dist/node/cli.js')}' "$@"; }`
    const settings = Object.entries({ LANG: 'C.UTF-8', LC_ALL: 'C.UTF-8', ...variables })
    const exported = settings.map(([name, value]) => `export ${name}='${value}'`)
    writeFileSync(path.join(tmux.folder, 'rc'), [...exported, "PS1='ready> '", cli, ''].join('\n'))
    const shell = `bash --noprofile --rcfile '${path.join(tmux.folder, 'rc')}'`
    // tmux refuses to show wide characters without a locale of its own.
    await tmux.#run('-u', 'new-session', '-d', '-s', 'test', '-x', String(columns), '-y', String(rows), shell)
    await tmux.shows(/ready>/)
    return tmux
  }

  /** Types keys by their names in tmux: `j`, `Enter`, `C-c`. */
  async keys(...names: readonly string[]): Promise<void> {
    await this.#run('send-keys', '-t', 'test', ...names)
  }

  /** Types a line and Enter. */
  async type(line: string): Promise<void> {
    await this.#run('send-keys', '-t', 'test', '-l', line)
    await this.keys('Enter')
  }

  async resize(columns: number, rows: number): Promise<void> {
    await this.#run('resize-window', '-t', 'test', '-x', String(columns), '-y', String(rows))
  }

  /** The screen as text; with `escapes`, with its colours. */
  screen(escapes = false): Promise<string> {
    return this.#run('capture-pane', '-p', '-t', 'test', ...(escapes ? ['-e'] : []))
  }

  /** Whether a program shows the alternate screen. */
  async isAlternate(): Promise<boolean> {
    return (await this.#run('display-message', '-p', '-t', 'test', '#{alternate_on}')).trim() === '1'
  }

  /** Whether the cursor is shown. */
  async hasCursor(): Promise<boolean> {
    return (await this.#run('display-message', '-p', '-t', 'test', '#{cursor_flag}')).trim() === '1'
  }

  /** Resolves with the screen once it matches. */
  async shows(pattern: RegExp): Promise<string> {
    let last = ''
    try {
      return await eventually(
        async () => {
          last = await this.screen()
          return pattern.test(last) && last
        },
        `${pattern} on the screen`,
        shownWithinMs,
      )
    } catch (error) {
      throw new Error(`The screen shows:\n${last}`, { cause: error })
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#run('kill-server').catch(() => {})
    removeFolder(this.folder)
  }

  async #run(...args: readonly string[]): Promise<string> {
    const socket = path.join(this.folder, 'socket')
    const { stdout } = await promisify(execFile)(this.#program, ['-S', socket, '-f', '/dev/null', ...args])
    return stdout
  }
}
