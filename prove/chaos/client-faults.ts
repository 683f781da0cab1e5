import type { Crew } from './crew.ts'
import type { ResourceName } from './resources.ts'
import type { Heal } from './store.ts'

/** Either way; nothing that decides who holds may depend on it. */
const clockJumpsMs = [-3_600_000, -5000, 5000, 3_600_000]

/** How long to look for a writer to stop, and then for another to write, in ttls: a slow store hands a lock over in seconds. */
const writerWithinTtls = 2
const otherWithinTtls = 8

/** What happens to client processes, by name. Each resolves to what ends it. */
export const clientFaults: Readonly<Record<string, (crew: Crew, choice: number) => Promise<Heal> | Heal>> = {
  'kill a client': (crew, choice) => {
    const slot = choice % crew.size
    crew.kill(slot)
    return () => crew.replace(slot)
  },
  'stop a client': (crew, choice) => stopped(crew, choice % crew.size),
  'stop the holder of the unfenced counter': (crew, choice) => outlasted(crew, 'unfenced', choice),
  'stop the holder of the fenced counter': (crew, choice) => outlasted(crew, 'fenced', choice),
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

/**
 * The client that is about to write the counter, or any other if there is none for a while, is stopped for as long as planned and until
 * another client has had the lock and has written.
 */
async function outlasted(crew: Crew, resource: ResourceName, choice: number): Promise<Heal> {
  const { resources, ttlMs } = crew
  const slot = (await resources.nextWriter(resource, writerWithinTtls * ttlMs)) ?? choice % crew.size
  crew.stop(slot)
  const written = resources.writtenByOther(resource, slot, otherWithinTtls * ttlMs)
  return async () => {
    await written
    crew.goOn(slot)
  }
}
