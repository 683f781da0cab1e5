import type { StartThread } from '../../api/client/client.ts'
import { Heartbeats, newestReports, type HeartbeatReport } from '../../api/heartbeat/heartbeats.ts'
import type { LockDriver } from '../../core/contract/driver.ts'
import type { World } from './world.ts'
import type { SimulatedProcess } from './simulated-process.ts'

/**
 * The heartbeat thread of a process: `own` is when it runs, `main` when the other thread does. Their messages
 * arrive in order, a little later, or when the receiving thread goes on.
 */
export function simulatedThread(
  world: World,
  main: SimulatedProcess,
  own: SimulatedProcess,
  driver: LockDriver,
): StartThread {
  return async (report) => {
    let reports: HeartbeatReport[] = []
    const drain = (): void => {
      const arrived = reports
      reports = []
      for (const each of newestReports(arrived)) report(each)
    }
    const heartbeats = new Heartbeats(driver, own.environment, (each) => {
      reports.push(each)
      world.at(world.between(0, 3), () => main.enter(drain))
    })
    let orders: (() => void)[] = []
    const order = (action: () => void): void => {
      orders.push(action)
      world.at(world.between(0, 3), () => own.enter(carryOut))
    }
    const carryOut = (): void => {
      const arrived = orders
      orders = []
      for (const action of arrived) action()
    }
    return {
      watch: (claim) => order(() => heartbeats.watch(claim)),
      unwatch: (id) => order(() => heartbeats.unwatch(id)),
      drain,
      close: () =>
        new Promise((resolve) => {
          order(() => void heartbeats.close().then(() => main.enter(resolve)))
        }),
    }
  }
}
