/**
 * A process that uses Web Locks as a tab would. Arguments: the store's URL, the lock's name, its mode. Prints what
 * happens, and releases the lock at SIGUSR2.
 */
import { connect } from '../../src/index.ts'
import { webLocks, type LockMode } from '../../src/web-locks/index.ts'

const [url = '', name = '', mode = 'exclusive'] = process.argv.slice(2)
const locks = await connect(url)
const manager = webLocks(locks)
const signalled = new Promise<void>((resolve) => {
  // A held lock does not keep the process alive.
  const keepAlive = setInterval(() => {}, 1000)
  process.once('SIGUSR2', () => {
    clearInterval(keepAlive)
    resolve()
  })
})

console.log(`client ${locks.runner.client}`)
const ended = manager.request(name, { mode: mode as LockMode }, async (lock) => {
  console.log(`granted ${lock?.mode}`)
  await signalled
  return 'done'
})
await ended.then(
  (result) => console.log(result),
  (error: unknown) => console.log(`rejected ${(error as Error).name}`),
)
await signalled
await locks.close()
