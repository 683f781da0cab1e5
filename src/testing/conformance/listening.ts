import { setTimeout as pause } from 'node:timers/promises'
import { expect } from '../vitest.ts'
import type { Fact } from './fact.ts'

/** Owners are notified of what happens to their claims. If every notification is lost, only speed suffers. */
export function listening(fact: Fact): void {
  fact('a grant is pushed to its owner', ['push', 'queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    const received = stage.listenTo(stage.driverOf('two'))
    await stage.release('one')
    await stage.receives(
      received,
      'two',
      (notification) => notification.state === 'held' && notification.fence > 0 && notification.ttlMs > 0,
    )
  })

  fact('a pushed grant tells the fence that is held', ['push', 'queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two', { ttl: 20 })
    const received = stage.listenTo(stage.driverOf('two'))
    await stage.pass(3)
    await stage.release('one')
    await stage.receives(received, 'two', (notification) => notification.state === 'held')
    const { fence } = await stage.standsHeld('two')
    for (const { name, notification } of received) {
      if (name !== 'two' || notification === 'poll' || notification.state !== 'held') continue
      expect(notification.fence).toBe(fence)
      stage.expectTicks(notification.ttlMs, 17)
    }
  })

  fact('no notification comes while the driver is being called', ['push', 'queue'], async (stage) => {
    const driver = stage.first
    const [holder, waiter] = [stage.draft('one'), stage.draft('two')]
    await driver.send([
      { op: 'claim', claim: holder },
      { op: 'claim', claim: waiter },
    ])
    const received = stage.listenTo(driver)
    const answered = driver.send([{ op: 'release', key: stage.key, id: holder.id }])
    expect(received).toEqual([])
    await answered
    await stage.receives(received, 'two', (notification) => notification.state === 'held')
  })

  fact('an eviction is pushed to the one evicted', ['push', 'evict'], async (stage) => {
    const { fence } = await stage.hold('one')
    const received = stage.listenTo(stage.driverOf('one'))
    await stage.second.send([{ op: 'evict', key: stage.key, fence, reason: 'stuck' }])
    await stage.receives(
      received,
      'one',
      (notification) => notification.state === 'absent' && notification.reason === 'evicted',
    )
  })

  fact('who is told to leave hears it', ['push', 'queue', 'evict lower-priority'], async (stage) => {
    await stage.hold('low')
    const received = stage.listenTo(stage.driverOf('low'))
    await stage.queue('high', { priority: 5, evict: 'lower-priority' })
    await stage.receives(
      received,
      'low',
      (notification) => notification.state === 'held' && notification.leaving === 'preempted',
    )
  })

  fact("a promotion found by somebody else's asking is pushed too", ['push', 'queue'], async (stage) => {
    await stage.hold('one', { ttl: 2 })
    await stage.queue('two')
    await stage.queue('three')
    const received = stage.listenTo(stage.driverOf('two'))
    await stage.pass(3)
    await stage.status('three')
    await stage.receives(received, 'two', (notification) => notification.state === 'held')
  })

  fact('all whom one release lets in hear of it', ['push', 'queue', 'shared'], async (stage) => {
    await stage.hold('writer')
    const names = ['one', 'two', 'three', 'four']
    for (const name of names) await stage.queue(name, { mode: 'shared' })
    const logs = names.map((name) => stage.listenTo(stage.driverOf(name)))
    await stage.release('writer')
    for (const [index, name] of names.entries()) {
      await stage.receives(logs[index] ?? [], name, (notification) => notification.state === 'held')
    }
  })

  fact('nobody hears of a claim to which nothing happened', ['push', 'queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    await stage.queue('three')
    await stage.hold('elsewhere', { key: 'stage/named:elsewhere' })
    const received = [stage.listenTo(stage.first), stage.listenTo(stage.second)]
    await stage.release('one')
    const log = stage.driverOf('two') === stage.first ? received[0] : received[1]
    await stage.receives(log ?? [], 'two', (notification) => notification.state === 'held')
    await pause(20)
    const statuses = received.flat().filter(({ notification }) => notification !== 'poll')
    expect(statuses.filter(({ name }) => name === 'three' || name === 'elsewhere' || name === 'one')).toEqual([])
  })

  fact('who stops listening hears no more', ['push', 'queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    let received = 0
    const subscription = stage.driverOf('two').listen?.(() => (received += 1))
    subscription?.[Symbol.dispose]()
    subscription?.[Symbol.dispose]()
    await stage.release('one')
    await stage.standsHeld('two')
    await pause(50)
    expect(received).toBe(0)
  })

  fact('who heard nothing learns the same by asking', ['queue'], async (stage) => {
    await stage.hold('one')
    await stage.queue('two')
    await stage.queue('three')
    await stage.release('one')
    expect(await stage.renew('two')).toMatchObject({ state: 'held' })
    await stage.release('two')
    expect(await stage.renew('three')).toMatchObject({ state: 'held' })
  })
}
