import { freePort } from './free-port.ts'
import { needProgram } from './debian.ts'
import { MariadbServer } from './mariadb-server.ts'

/** Two MariaDB servers that keep the same data: both take writes, and a transaction counts once both have certified it. */
export async function startGalera(): Promise<readonly [MariadbServer, MariadbServer]> {
  // The rest of the package brings the provider, its scripts and their user.
  needProgram('galera_new_cluster', ['mariadb-server', 'rsync'])
  const first = await startNode('')
  return [first.server, (await startNode(`127.0.0.1:${first.port}`)).server]
}

async function startNode(joins: string): Promise<{ readonly server: MariadbServer; readonly port: number }> {
  const [port, increments, transfer] = [await freePort(), await freePort(), await freePort()]
  const settings = {
    'innodb-flush-log-at-trx-commit': '1',
    'binlog-format': 'row',
    'innodb-autoinc-lock-mode': '2',
    'wsrep-on': 'ON',
    'wsrep-provider': '/usr/lib/galera/libgalera_smm.so',
    'wsrep-cluster-address': `gcomm://${joins}`,
    'wsrep-node-address': `127.0.0.1:${port}`,
    'wsrep-provider-options': `base_port=${port};ist.recv_addr=127.0.0.1:${increments};gcache.size=16M`,
    'wsrep-sst-receive-address': `127.0.0.1:${transfer}`,
    'wsrep-sst-method': 'rsync',
  }
  // What one node copies to another must not belong to root.
  return { server: await MariadbServer.start(settings, process.getuid?.() === 0 ? { owner: 'mysql' } : {}), port }
}
