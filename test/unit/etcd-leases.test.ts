import { beforeEach, describe, expect, test } from 'vitest'
import { answeredNo, code, noAnswerFrom } from '../../src/drivers/etcd/rpc/errors.ts'
import { Leases, type LeaseClient } from '../../src/drivers/etcd/leases/leases.ts'
import { calls } from '../../src/drivers/etcd/rpc/messages.ts'
import { bytes, message, integerField } from '../../src/drivers/etcd/rpc/protobuf.ts'

const ttlMs = 12_000

/** Nodes that answer as a test tells them to, and a clock that only tests move. */
class CraftedClient implements LeaseClient {
  time = 1000
  callsSent = 0
  node = { term: 7 }
  /** The term that the next answer is told to have. */
  answersTerm = 7
  /** How long an answer takes. */
  takesMs = 0
  faults: Error[] = []
  seconds = ttlMs / 1000
  /** The next call goes to another node. */
  changesNode = false
  readonly said: string[] = []
  /** The longest that was waited for an answer. */
  longestMs = 0

  session(): Promise<{ term: number }> {
    return Promise.resolve(this.node)
  }

  async call(
    path: string,
    _message: Buffer,
    timeoutMs: number,
  ): Promise<{ data: Buffer; session: { term: number }; callNumber: number }> {
    const callNumber = (this.callsSent += 1)
    this.said.push(path)
    this.longestMs = Math.max(this.longestMs, timeoutMs)
    this.time += this.takesMs
    if (this.changesNode) this.node = { ...this.node }
    this.changesNode = false
    const fault = this.faults.shift()
    if (fault !== undefined) throw fault
    const data = message(bytes(1, integerField(4, this.answersTerm)), integerField(3, this.seconds))
    return { data, session: this.node, callNumber }
  }
}

let client: CraftedClient
let leases: Leases

beforeEach(() => {
  client = new CraftedClient()
  leases = new Leases({ client, now: () => client.time, secondsFor: (ms) => Math.ceil(ms / 1000) })
})

async function grant(): Promise<number> {
  await leases.secure(ttlMs, 1000)
  return leases.idFor(ttlMs)
}

/** Lets half of the lease pass and keeps it alive. */
async function keepAlive(): Promise<number> {
  const id = await grant()
  client.time += ttlMs / 2
  await leases.secure(ttlMs, 1000)
  expect(client.said.at(-1)).toBe(calls.keepAlive)
  return id
}

/** Something that needs the majority, sent now. */
const proof = (): { session: { term: number }; callNumber: number } => ({
  session: client.node,
  callNumber: (client.callsSent += 1),
})

describe('a grant', () => {
  test('is sure from before it was sent', async () => {
    client.takesMs = 300
    expect(leases.leftMs(await grant())).toBe(ttlMs - 300)
  })

  test('whose answer was lost is asked for again, counts from the first time, and is kept alive', async () => {
    client.takesMs = 1000
    client.faults = [
      noAnswerFrom('node', 'fell silent'),
      answeredNo(code.precondition, 'etcdserver: lease already exists'),
    ]
    await expect(grant()).rejects.toThrow('fell silent')
    expect(leases.idFor(ttlMs)).toBe(0)
    const id = await grant()
    expect(leases.leftMs(id)).toBe(ttlMs - 3000)
    leases.confirm(proof(), 7)
    expect(leases.leftMs(id)).toBe(ttlMs - 1000)
  })

  test('is made once for all that ask at the same time, and not again while it is fresh', async () => {
    await Promise.all([grant(), grant(), leases.secure(ttlMs - 400, 1000)])
    client.time += ttlMs / 6 - 1
    await grant()
    expect(client.said).toEqual([calls.grant])
  })

  test('that etcd has made longer is sure for longer', async () => {
    client.seconds = 20
    expect(leases.leftMs(await grant())).toBe(20_000)
  })
})

describe('a keep-alive', () => {
  test('counts from before it was sent, once the node has shown to be in the same term still', async () => {
    const id = await grant()
    client.time += ttlMs / 2
    client.takesMs = 500
    await leases.secure(ttlMs, 1000)
    expect(leases.leftMs(id)).toBe(ttlMs / 2 - 500)
    leases.confirm(proof(), 7)
    expect(leases.leftMs(id)).toBe(ttlMs - 500)
  })

  test('of a leader that was deposed without knowing it proves nothing', async () => {
    const id = await keepAlive()
    leases.confirm(proof(), 8)
    expect(leases.leftMs(id)).toBe(ttlMs / 2)
    // Nor does it later: whatever is answered from now on is another leader's.
    leases.confirm(proof(), 7)
    expect(leases.leftMs(id)).toBe(ttlMs / 2)
  })

  test('is not proved by what was sent before its answer, nor by another node', async () => {
    const id = await grant()
    client.time += ttlMs / 2
    const early = proof()
    await leases.secure(ttlMs, 1000)
    leases.confirm(early, 7)
    expect(leases.leftMs(id)).toBe(ttlMs / 2)
    leases.confirm({ session: { term: 7 }, callNumber: client.callsSent + 1 }, 7)
    expect(leases.leftMs(id)).toBe(ttlMs / 2)
    leases.confirm(proof(), 7)
    expect(leases.leftMs(id)).toBe(ttlMs)
  })

  test('proves nothing where another node answered than the one whose term was known', async () => {
    const id = await grant()
    client.time += ttlMs / 2
    client.changesNode = true
    await leases.secure(ttlMs, 1000)
    leases.confirm(proof(), 7)
    expect(leases.leftMs(id)).toBe(ttlMs / 2)
  })

  test('proves nothing where the term was another one before', async () => {
    const id = await grant()
    client.time += ttlMs / 2
    client.answersTerm = 8
    await leases.secure(ttlMs, 1000)
    leases.confirm(proof(), 8)
    expect(leases.leftMs(id)).toBe(ttlMs / 2)
    // From now on the term is known.
    await leases.secure(ttlMs, 1000)
    leases.confirm(proof(), 8)
    expect(leases.leftMs(id)).toBe(ttlMs)
  })

  test('of a lease that is no more makes a new one, of another id', async () => {
    const id = await grant()
    client.time += ttlMs / 2
    client.seconds = 0
    await leases.secure(ttlMs, 1000)
    expect(client.said).toEqual([calls.grant, calls.keepAlive, calls.grant])
    expect(leases.idFor(ttlMs)).not.toBe(id)
    expect(leases.leftMs(id) ?? -Infinity).toBe(-Infinity)
  })

  test('leaves time to ask another node: others may wait for the same one', async () => {
    await grant()
    client.time += ttlMs / 2
    await leases.secure(ttlMs, 60_000)
    expect(client.said).toEqual([calls.grant, calls.keepAlive])
    expect(client.longestMs).toBe(ttlMs / 3)
  })

  test('is sent for a lease that is in doubt, however fresh it is', async () => {
    const id = await grant()
    leases.suspectAll()
    expect(leases.leftMs(id)).toBe(ttlMs)
    await leases.secure(ttlMs, 1000)
    await leases.secure(ttlMs, 1000)
    expect(client.said).toEqual([calls.grant, calls.keepAlive])
  })
})
