/** The times of a claim on the clock of a test. */
export interface KnownTimes {
  readonly expiresAt: number
  readonly lastHeartbeat: number
}

/** For tests that move time: drivers tell when claims end, and the test that moves the clock removes their markers. */
export interface LeasesForTests {
  now(): number
  known(marker: string): KnownTimes | undefined
  learn(marker: string, times: KnownTimes): void
}
