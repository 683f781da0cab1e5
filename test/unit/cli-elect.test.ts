import { expect, test } from 'vitest'
import { runCommandLine } from '../../src/cli/command-line.ts'
import type { ProcessContext } from '../../src/cli/command.ts'
import { messagesTo } from '../../src/cli/output/messages.ts'
import { connect, LeaseholdError } from '../../src/index.ts'

const gone = (): LeaseholdError => new LeaseholdError('UNAVAILABLE', 'The store is gone.', { reason: 'network' })

/** Stands for an office until the command has run. `open` opens the store for the nth time. */
async function elect(open: (time: number, ...where: Parameters<typeof connect>) => ReturnType<typeof connect>) {
  let times = 0
  let errors = ''
  const context: ProcessContext = {
    variables: { ...process.env, LEASEHOLD_STORE: 'bench:elections' },
    messages: messagesTo((text) => (errors += text), undefined),
    print: () => {},
    drained: async () => {},
    // Under another name: commands do not take a store that is in the memory of a process.
    connect: (url, options) => open((times += 1), url.replace('bench:', 'memory:'), options),
    ask: undefined,
  }
  const code = await runCommandLine(['elect', 'office', '--', 'sh', '-c', 'exit 3'], context)
  return { code, errors, times }
}

test('a candidate whose store goes away while it waits stands again', async () => {
  const ended = await elect(async (time, ...where) => {
    const locks = await connect(...where)
    if (time === 1) locks.acquire = () => Promise.reject(gone())
    if (time === 2) {
      await locks.close()
      throw gone()
    }
    return locks
  })
  expect(ended).toMatchObject({ code: 3, times: 3 })
  expect(ended.errors).toContain('The store is gone.')
})

test('a store that was never reached is a mistake to be told', async () => {
  expect(await elect(() => Promise.reject(gone()))).toMatchObject({ code: 69, times: 1 })
})
