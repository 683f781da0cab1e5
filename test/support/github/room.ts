import { setTimeout as pause } from 'node:timers/promises'
import type { ListQuery, LockDriver, Request } from '../../../src/core/contract/driver.ts'

/**
 * A driver whose keys all begin with the name of a room, so that a store that cannot be thrown away is a fresh one. What it
 * was asked to do shows after `restMs`.
 */
export function inRoom(driver: LockDriver, room: string, restMs: number): LockDriver {
  const inside = (key: string): string => `${room}/${key}`
  const outside = (key: string): string => key.slice(room.length + 1)
  return {
    name: driver.name,
    supports: driver.supports,
    open: () => driver.open(),
    close: () => driver.close(),
    async send(requests) {
      const statuses = await driver.send(requests.map((request) => moved(request, inside)))
      if (restMs > 0 && requests.length > 0) await pause(restMs)
      return statuses
    },
    async list({ key, prefix = '', after, limit }: ListQuery) {
      const where = key === undefined ? { prefix: inside(prefix) } : { key: inside(key) }
      const page = await driver.list({ ...where, ...(after !== undefined && { after: inside(after) }), limit })
      const keys = page.keys.map((entry) => ({ ...entry, key: outside(entry.key) }))
      return { ...page, keys, ...(page.next !== undefined && { next: outside(page.next) }) }
    },
  }
}

function moved(request: Request, inside: (key: string) => string): Request {
  if (request.op !== 'claim') return { ...request, key: inside(request.key) }
  return { op: 'claim', claim: { ...request.claim, key: inside(request.claim.key) } }
}
