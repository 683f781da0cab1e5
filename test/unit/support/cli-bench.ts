import { runCommandLine } from '../../../src/cli/command-line.ts'
import type { ProcessContext } from '../../../src/cli/command.ts'
import { messagesTo } from '../../../src/cli/output/messages.ts'
import { connect } from '../../../src/index.ts'

let benches = 0

/** A command line in this process, on a store in its memory that the test can `connect` to, and what it printed. */
export function cliBench(answer?: string) {
  const store = `memory:cli-${(benches += 1)}`
  const shown = { output: '', errors: '' }
  const context: { -readonly [Name in keyof ProcessContext]: ProcessContext[Name] } = {
    // Under another name: commands do not take a store that is in the memory of a process.
    variables: { LEASEHOLD_STORE: store.replace('memory:', 'bench:') },
    messages: messagesTo((text) => (shown.errors += text), undefined),
    print: (text) => (shown.output += text),
    drained: async () => {},
    connect: (url, options) => connect(url.replace('bench:', 'memory:'), options),
    ask: answer === undefined ? undefined : () => Promise.resolve(answer),
  }
  return { store, shown, context, leasehold: (...args: string[]) => runCommandLine(args, context) }
}
