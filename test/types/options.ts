// Compiled by test/unit/types.test.ts and scripts/consumers/types.mjs. Never run.
import { parseDuration, type AcquireOptions, type ConnectOptions, type Duration } from 'leasehold'

// Text with a unit, one part or several, and milliseconds.
export const durations: readonly Duration[] = [500, '500ms', '30s', '1.5h', '1m30s', '1h5m30s']
// What comes from outside is text of any kind.
export const fromOutside: Duration = parseDuration(process.env['LOCK_TTL'])

// @ts-expect-error -- there is no such unit
export const wrongUnit: Duration = '5x'
// @ts-expect-error -- milliseconds are a number
export const noUnit: Duration = '30'
// @ts-expect-error -- unchecked text
export const unchecked: Duration = process.env['LOCK_TTL'] ?? '30s'

// With exactOptionalPropertyTypes, too, an option may be passed on that is undefined.
export function passedOn(wait?: Duration, signal?: AbortSignal): AcquireOptions {
  return { wait, signal, ttl: undefined, retry: { attempts: 3, min: undefined } }
}
export const connected: ConnectOptions = { runner: undefined, defaults: undefined, heartbeatThread: undefined }

// What is checked at run time, with a default of its own.
export const ofEnvironment: AcquireOptions = { ttl: parseDuration(process.env['LOCK_TTL'] ?? '5s') }
