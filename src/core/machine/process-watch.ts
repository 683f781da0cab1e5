import { hostname, uptime } from 'node:os'
import { bootIdentity } from './boot.ts'
import { isGone, ownProcess } from './liveness.ts'
import { machineIdentity } from './machine-identity.ts'
import { newStamp, stampText, parseStamp, type LivenessStamp } from './liveness-stamp.ts'
import type { ProcessWatch } from './runner-name.ts'

/** How processes of this machine recognise each other: by boot, pid namespace, pid and start time. */
export function processWatch(
  self: LivenessStamp = newStamp(bootIdentity(), ownProcess()),
  uptimeMs: () => number = () => uptime() * 1000,
): ProcessWatch {
  return {
    self: stampText(self),
    label: `process ${self.pid} on ${hostname()}`,
    machine: machineIdentity(),
    judge(name, unrenewedMs) {
      const stamp = parseStamp(name)
      if (stamp === undefined) return 'unknown'
      // Last renewed before this machine was started: that process ended with the boot before.
      if (stamp.boot !== self.boot) return unrenewedMs > uptimeMs() ? 'gone' : 'unknown'
      if (stamp.namespace !== self.namespace || stamp.namespace === '') return 'unknown'
      return isGone(stamp, self) ? 'gone' : 'running'
    },
  }
}
