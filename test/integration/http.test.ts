import path from 'node:path'
import { expect, test } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { compareWithModel, conformance, type Harness } from '../../src/testing/index.ts'
import { servedBench } from '../support/served-store.ts'
import { overFetch, overNode, type NamedTransport } from '../support/transports.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'
import { isLong, rounds } from '../support/extent.ts'

let stores = 0

/** A clock that only the bench moves. */
function benchClock() {
  let time = 5_000
  return {
    clock: { now: () => time, wall: () => 1_700_000_000_000 + time },
    advance: async (ms: number) => void (time += ms),
  }
}

function overMemory(transport: NamedTransport): Harness {
  return {
    async open() {
      const { clock, advance } = benchClock()
      let name = `http-test-${(stores += 1)}`
      const store = {
        make: () => memory({ name, clock }),
        advance,
        async empty() {
          name = `http-test-${(stores += 1)}`
        },
      }
      return servedBench(store, transport)
    },
  }
}

const overSqlite: Harness = {
  async open() {
    const { clock, advance } = benchClock()
    const directory = makeFolder('http')
    let file = 1
    return servedBench({
      make: () => sqlite({ file: path.join(directory, `${file}.sqlite`), forOthers: true, environment: { clock } }),
      advance,
      lasts: true,
      async empty() {
        file += 1
      },
      discard: () => removeFolder(directory),
    })
  },
}

conformance('http in front of memory', overMemory(overNode))
if (isLong) conformance('http over fetch in front of memory', overMemory(overFetch))
conformance('http in front of sqlite', overSqlite)

test('http answers thousands of commands of random scripts as the rule does', async () => {
  const { commands, counterexample } = await compareWithModel(overMemory(overNode), {
    runs: rounds(60, 120),
    timeLimitMs: 100_000,
  })
  expect(counterexample).toBeUndefined()
  expect(commands).toBeGreaterThan(rounds(1500, 3000))
})
