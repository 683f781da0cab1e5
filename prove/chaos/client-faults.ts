import { setTimeout as pause } from 'node:timers/promises'
import type { Crew } from './crew.ts'
import type { ResourceName } from './resources.ts'
import type { Heal } from './store.ts'

/** Either way; nothing that decides who holds may depend on it. */
const clockJumpsMs = [-3_600_000, -5000, 5000, 3_600_000]

const writerWithinMs = 3000

/** What happens to client processes, by name. Each resolves to what ends it. */
export const clientFaults: Readonly<Record<string, (crew: Crew, choice: number) => Promise<Heal> | Heal>> = {
  'kill a client': (crew, choice) => {
    const slot = choice % crew.size
    crew.kill(slot)
    return () => crew.replace(slot)
  },
  'stop a client': (crew, choice) => stopped(crew, choice % crew.size),
  'stop the holder of the unfenced counter': async (crew, choice) =>
    outlasting(crew, await writerOf(crew, 'unfenced', choice)),
  'stop the holder of the fenced counter': async (crew, choice) =>
    outlasting(crew, await writerOf(crew, 'fenced', choice)),
  'a client has no descriptors': (crew, choice) => {
    const slot = choice % crew.size
    crew.exhaustDescriptors(slot)
    return () => crew.restoreDescriptors(slot)
  },
  'a client’s clock jumps': (crew, choice) => {
    crew.setClock(choice % crew.size, clockJumpsMs[choice % clockJumpsMs.length] ?? 0)
    // It stays wrong until it jumps again.
    return () => {}
  },
}

function stopped(crew: Crew, slot: number): Heal {
  crew.stop(slot)
  return () => crew.goOn(slot)
}

/** The client is stopped for as long as planned, and for its ttl: then others have had the lock. */
function outlasting(crew: Crew, slot: number): Heal {
  crew.stop(slot)
  return async () => {
    await pause(crew.ttlMs)
    crew.goOn(slot)
  }
}

/** The client that is about to write the counter; any other if there is none for a while. */
async function writerOf(crew: Crew, resource: ResourceName, choice: number): Promise<number> {
  return (await crew.resources.nextWriter(resource, writerWithinMs)) ?? choice % crew.size
}
