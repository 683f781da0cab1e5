import { spawnSync } from 'node:child_process'

/** How many descriptors a running process may have from now on. Those that it has stay. */
export function limitDescriptors(pid: number | undefined, limit: number): void {
  if (pid === undefined) return
  // Only the soft limit: the hard one could not be raised again. A process that has ended meanwhile needs none.
  spawnSync('prlimit', [`--pid=${pid}`, `--nofile=${limit}:`], { stdio: 'ignore' })
}
