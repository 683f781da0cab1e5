import { setTimeout as pause } from 'node:timers/promises'
import { ControlGroup } from './control-group.ts'
import { ProcessFamily } from './process-family.ts'

// A program of its own: the watchdog starts it when Leasehold was killed. It ends all that the run had started, and itself
// once nothing of that is left.

const [mark = '', leader = '', started = '0', group = ''] = process.argv.slice(2)
const controlGroup = group === '' ? undefined : new ControlGroup(group)

const family = new ProcessFamily({
  mark,
  leader: leader === '' ? undefined : { pid: Math.abs(Number(leader)), started: Number(started) },
  ownsSession: leader.startsWith('-'),
  controlGroup,
})

/** A process that the system itself holds on to, for a disk that does not answer, say, cannot be waited for. */
const sweepTimeoutMs = 5000
const lookEveryMs = 10

void sweep()

async function sweep(): Promise<void> {
  const until = performance.now() + sweepTimeoutMs
  for (;;) {
    family.kill()
    if (!family.isAlive() || performance.now() > until) break
    await pause(lookEveryMs)
  }
  while (controlGroup?.remove() === false && performance.now() < until) await pause(lookEveryMs)
}
