/** What is known of a claim's times, on the clock of a test. */
export interface KnownTimes {
  readonly expiresAt: number
  readonly lastHeartbeat: number
}

/** For tests that move time: drivers tell when claims end, and whoever moves the clock removes their markers. */
export interface LeasesForTests {
  now(): number
  known(marker: string): KnownTimes | undefined
  learn(marker: string, times: KnownTimes): void
}

/** How long etcd's own leases are where they are not to end anything, in seconds. @internal */
export const testLeaseSeconds = 3600
