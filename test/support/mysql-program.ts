import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { debianProgram } from '../../scripts/debian-program.mjs'
import type { SqlProgram } from './mariadb-server.ts'

/** MySQL itself, out of Debian's unstable release: downloaded once, and not installed. */
export function debianMysql(): SqlProgram {
  const cache = path.resolve('node_modules/.cache/leasehold-mysql')
  const server = { release: 'sid', packageName: 'mysql-server-core', program: 'mysqld', place: 'usr/sbin', cache }
  const launcher = debianProgram(server)
  const root = path.join(path.dirname(launcher), 'root/usr')
  const flags = [
    `--basedir=${root}`,
    `--lc-messages-dir=${root}/share/mysql`,
    `--character-sets-dir=${root}/share/mysql/charsets`,
    `--plugin-dir=${root}/lib/mysql/plugin`,
    '--mysqlx=OFF',
    '--secure-file-priv=',
  ]
  const user = process.getuid?.() === 0 ? ['--user=root'] : []
  return {
    path: launcher,
    flags,
    prepare: (dataFolder) => {
      const args = ['--no-defaults', '--initialize-insecure', `--datadir=${dataFolder}`, ...flags, ...user]
      execFileSync(launcher, args, { stdio: 'ignore' })
    },
  }
}
