import type { ChildProcess } from 'node:child_process'

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
