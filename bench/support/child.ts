import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** Only a child that hangs takes this long. */
const limitMs = 300_000

/** Starts a program of `children/`. A child that hangs is killed; {@link ready} ends it with this process. */
export function startChild(program: string, ...words: readonly string[]): ChildProcess {
  const file = fileURLToPath(new URL(`../children/${program}.js`, import.meta.url))
  return fork(file, words, { timeout: limitMs, killSignal: 'SIGKILL' })
}

/** The next message of a child; rejects if the child ends instead. */
export function nextMessage(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null): void => reject(new Error(`A child ended with ${String(code)}.`))
    child.once('exit', ended)
    child.once('message', (message) => {
      child.off('exit', ended)
      resolve(message)
    })
  })
}

/** For the child: reports that it is ready. From then on it ends with its parent. */
export function ready(): void {
  process.once('disconnect', () => process.exit())
  process.send?.('ready')
}
