/**
 * One short life of a client in a process of its own, for tests of what is built on locks.
 * Arguments: the story, the store's URL, and what the story needs to know.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type LeaseProof, type Locks, type Task } from '../../src/index.ts'

const [story = '', url = '', ...rest] = process.argv.slice(2)
process.on('unhandledRejection', (error) => {
  console.log(`unhandled: ${String(error)}`)
  process.exit(99)
})
const stayAlive = () => void setInterval(() => {}, 1000)
/** A lock, the only permit of a semaphore, or a lock for writing, by its name. */
function take(locks: Locks, name: string, body: () => void | Promise<void>): Promise<void> {
  if (name.startsWith('permit')) return locks.semaphore(name, 1).run(body)
  return name.startsWith('file') ? locks.readWrite(name).runWrite(body) : locks.run(name, body)
}

const stories: Record<string, () => Promise<void>> = {
  /** Hands a lease off and ends: no process holds it then. */
  async 'hand off and end'() {
    const locks = await connect(url)
    const lease = await locks.acquire('a', { ttl: '10s' })
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
    await locks.once('job', { atMost: '6s' }, async () => {
      console.log('running')
      stayAlive()
      await new Promise(() => {})
    })
  },

  async 'claim and wait'() {
    const locks = await connect(url)
    const task = (await locks.claim('queue', 'task', { ttl: '10m' })) as Task
    console.log(`claimed ${task.fence}`)
    stayAlive()
  },

  /** Works on the tasks that are named, and prints each with its fence. The first argument says how: `work`, or `hang` in the first task. */
  async work() {
    const [how, ...tasks] = rest
    const locks = await connect(url)
    locks.work('queue', { source: () => tasks, ttl: '4s', concurrency: 2, pause: { max: '200ms' } }, async (job) => {
      console.log(`${how === 'hang' ? 'has' : 'did'} ${job.item} ${job.fence}`)
      if (how === 'hang') await new Promise(() => {})
      await pause(20)
    })
    stayAlive()
  },

  async lead() {
    const locks = await connect(url)
    const election = locks.elect('boss', { ttl: '40s' })
    console.log('status')
    const term = await election.campaign()
    console.log(`leads ${term.fence}`)
    stayAlive()
  },

  /** Takes the first lock, and asks for the second once another process holds it. Prints times of a clock that all share. */
  async cross() {
    const locks = await connect(url, { defaults: { ttl: '60s' } })
    const [first = '', second = ''] = rest
    const say = (text: string): void => console.log(`${Number(process.hrtime.bigint() / 1_000_000n)} ${text}`)
    try {
      await take(locks, first, async () => {
        while (!(await locks.status(second)).locked) await pause(20)
        say('asks')
        await take(locks, second, () => say('has both'))
      })
    } catch (error) {
      const { code, cycle = [] } = error as { code: string; cycle?: readonly { waitsFor: string }[] }
      const names = cycle.map(({ waitsFor }) => waitsFor)
      say(`${code} ${names.toSorted().join(' ')}`)
    }
    await locks.close()
  },
}

const play = stories[story]
if (play === undefined) throw new Error(`There is no story ${JSON.stringify(story)}.`)
await play()
