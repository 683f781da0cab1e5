import type { LockDriver } from '../../src/core/contract/driver.ts'

/** The driver with some methods replaced. A driver is an instance of a class, which cannot be spread. */
export function around(driver: LockDriver, changes: Partial<LockDriver> = {}): LockDriver {
  return {
    name: driver.name,
    supports: driver.supports,
    open: () => driver.open(),
    list: (query) => driver.list(query),
    listen: (onNotification, onGap) => driver.listen?.(onNotification, onGap) ?? { [Symbol.dispose]() {} },
    close: () => driver.close(),
    send: (requests) => driver.send(requests),
    ...changes,
  }
}
