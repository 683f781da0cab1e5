/**
 * One short life of a client in a process of its own, for tests of what is built on locks.
 * Arguments: the story, the store's URL, and what the story needs to know.
 */
import { connect, type LeaseProof, type Task } from '../../src/index.ts'

const [story = '', url = '', ...rest] = process.argv.slice(2)
process.on('unhandledRejection', (error) => {
  console.log(`unhandled: ${String(error)}`)
  process.exit(99)
})
const stayAlive = () => void setInterval(() => {}, 1000)
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

const stories: Record<string, () => Promise<void>> = {
  /** Hands a lease off and ends: nobody has it in hand then. */
  async 'hand off and end'() {
    const locks = await connect(url)
    const lease = await locks.acquire('a', { ttl: '5s' })
    console.log(JSON.stringify(await lease.handOff()))
  },

  async resume() {
    const locks = await connect(url)
    const lease = await locks.resume(JSON.parse(rest[0] ?? '') as LeaseProof)
    console.log(`resumed ${lease.fence}`)
    stayAlive()
  },

  async 'die in a run'() {
    const locks = await connect(url)
    await locks.once('job', { atMost: '3s' }, async () => {
      console.log('running')
      stayAlive()
      await new Promise(() => {})
    })
  },

  async 'claim and wait'() {
    const locks = await connect(url)
    const task = (await locks.claim('queue', 'task', { ttl: '30s' })) as Task
    console.log(`claimed ${task.fence}`)
    stayAlive()
  },

  async lead() {
    const locks = await connect(url)
    const election = locks.elect('boss', { ttl: '2s' })
    console.log('standing')
    const term = await election.campaign()
    console.log(`leads ${term.fence}`)
    stayAlive()
  },

  /** Takes one lock, waits for the others to have theirs, and asks for the next one's. */
  async cross() {
    const locks = await connect(url)
    const [first = '', second = ''] = rest
    try {
      await locks.run(first, { ttl: '10s' }, async () => {
        console.log('holding')
        await pause(1000)
        console.log('asking')
        await locks.run(second, () => console.log('has both'))
      })
    } catch (error) {
      const { code, cycle } = error as { code: string; cycle?: readonly { waitsFor: string }[] }
      console.log(
        `${code} ${cycle
          ?.map(({ waitsFor }) => waitsFor)
          .toSorted()
          .join(' ')}`,
      )
    }
    await locks.close()
  },
}

const play = stories[story]
if (play === undefined) throw new Error(`There is no story ${JSON.stringify(story)}.`)
await play()
