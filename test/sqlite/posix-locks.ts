import { readFileSync, statSync } from 'node:fs'

/** How many locks this process has on a file, by the system's own list. SQLite keeps one for as long as it has a log. */
export function locksOn(file: string): number {
  const inode = statSync(file).ino
  return readFileSync('/proc/locks', 'utf8')
    .split('\n')
    .filter((line) => {
      const [, kind, , , pid, place] = line.split(/\s+/)
      return kind === 'POSIX' && Number(pid) === process.pid && place?.split(':')[2] === String(inode)
    }).length
}
