import { expect, test } from 'vitest'
import { leaseWarning } from '../../src/drivers/etcd/rpc/messages.ts'

test.each(['3.3.27', '3.4.0', '3.4.23', '3.4.30', '3.5.0', '3.5.12', '3.5.0-rc.1'])(
  'etcd %s is said to end leases too early, and what to do',
  (version) => {
    expect(leaseWarning(version)).toMatch(`etcd ${version} may revoke leases too early`)
    expect(leaseWarning(version)).toMatch('Update it to 3.4.31, 3.5.13 or later.')
  },
)

test.each(['3.4.31', '3.5.13', '3.5.21', '3.6.0', '4.0.0', '', 'dev', '3.5'])(
  'nothing is said of etcd %s',
  (version) => {
    expect(leaseWarning(version)).toBeUndefined()
  },
)
