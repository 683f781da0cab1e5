/** The first version of each series of etcd that does not revoke leases too early: https://github.com/etcd-io/etcd/issues/15247. */
const mended: readonly (readonly [major: number, minor: number, patch: number])[] = [
  [3, 4, 31],
  [3, 5, 13],
]

/** What is wrong with leases in a version of etcd; undefined: nothing that is known. */
export function leaseFaultIn(version: string): string | undefined {
  const [major, minor, patch] = version.split(/[.+-]/).map(Number)
  if (major === undefined || minor === undefined || patch === undefined || Number.isNaN(major + minor + patch)) {
    return undefined
  }
  const first = mended.find((one) => one[0] === major && one[1] === minor)
  const isOlder = major < 3 || (major === 3 && minor < 4)
  if (first === undefined ? !isOlder : patch >= first[2]) return undefined
  return (
    `etcd ${version} may revoke leases too early after a leader stood still (etcd issue 15247), and two would hold a lock. ` +
    'Update it to 3.4.31, 3.5.13 or later.'
  )
}
