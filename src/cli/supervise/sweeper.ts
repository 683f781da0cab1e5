import { setTimeout as pause } from 'node:timers/promises'
import { ControlGroup } from './control-group.ts'
import { ProcessFamily } from './process-family.ts'

// A separate program: the watchdog starts it after Leasehold was killed. It kills every process of the run, and exits once
// none is left.

const [mark = '', leader = '', started = '0', group = ''] = process.argv.slice(2)
const controlGroup = group === '' ? undefined : new ControlGroup(group)

const family = new ProcessFamily({
  mark,
  leader: leader === '' ? undefined : { pid: Math.abs(Number(leader)), started: Number(started) },
  ownsSession: leader.startsWith('-'),
  controlGroup,
})

/** Give up after this time: a process blocked in the kernel, for example on a dead disk, does not end. */
const sweepTimeoutMs = 5000
const pollEveryMs = 10

void sweep()

async function sweep(): Promise<void> {
  const until = performance.now() + sweepTimeoutMs
  for (;;) {
    family.kill()
    if (!family.isAlive() || performance.now() > until) break
    await pause(pollEveryMs)
  }
  while (controlGroup?.remove() === false && performance.now() < until) await pause(pollEveryMs)
}
