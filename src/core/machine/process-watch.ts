import { hostname } from 'node:os'
import { bootIdentity } from './boot.ts'
import { isGone, ownProcess } from './liveness.ts'
import { newOwner, ownerName, parseOwner } from './owner.ts'
import type { ProcessWatch } from './runner-name.ts'

/** How processes of this machine recognise each other: by boot, pid namespace, pid and start time. */
export function processWatch(): ProcessWatch {
  const self = newOwner(bootIdentity(), ownProcess())
  return {
    self: ownerName(self),
    label: `process ${self.pid} on ${hostname()}`,
    isGone(name) {
      const owner = parseOwner(name)
      return owner !== undefined && isGone(owner, self)
    },
  }
}
