import { hostname, uptime } from 'node:os'
import { bootIdentity } from './boot.ts'
import { isGone, ownProcess } from './liveness.ts'
import { machineIdentity } from './machine-identity.ts'
import { newOwner, ownerName, parseOwner, type Owner } from './owner.ts'
import type { ProcessWatch } from './runner-name.ts'

/** How processes of this machine recognise each other: by boot, pid namespace, pid and start time. */
export function processWatch(
  self: Owner = newOwner(bootIdentity(), ownProcess()),
  uptimeMs: () => number = () => uptime() * 1000,
): ProcessWatch {
  return {
    self: ownerName(self),
    label: `process ${self.pid} on ${hostname()}`,
    machine: machineIdentity(),
    judge(name, unrenewedMs) {
      const owner = parseOwner(name)
      if (owner === undefined) return 'unknown'
      // Last renewed before this machine was started: that process ended with the boot before.
      if (owner.boot !== self.boot) return unrenewedMs > uptimeMs() ? 'gone' : 'unknown'
      if (owner.namespace !== self.namespace || owner.namespace === '') return 'unknown'
      return isGone(owner, self) ? 'gone' : 'running'
    },
  }
}
