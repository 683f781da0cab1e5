import { builtin, permitted, runtimeProcess, runtime } from './runtime.ts'

/** Kept: the runtime looks the global up anew each time that it is named. */
const { performance } = globalThis

/** The clocks of this machine, in milliseconds. */
export interface MachineClock {
  /** Never goes back; stops while the machine sleeps. */
  monotonicMs(): number
  /** Goes on in a sleep. */
  uptimeMs(): number
  /** Whether every process of the machine, and every thread of this one, reads the same from `monotonicMs`. */
  readonly isShared: boolean
}

/**
 * The clocks of this machine. Node reads the machine's own clock. In Bun and Deno `process.hrtime` counts from the start of
 * the process, and the uptime is in whole seconds: there we ask the C library, on Linux, where we know which clock Node
 * reads. Deno allows that with `--allow-ffi` only.
 */
export function machineClock(): MachineClock {
  const read = runtime === 'Bun' || runtime === 'Deno' ? clockOfLinux() : undefined
  if (read !== undefined) {
    return { monotonicMs: () => read(clockMonotonic), uptimeMs: () => read(clockBoottime), isShared: true }
  }
  const hrtime = runtimeProcess?.hrtime
  const uptime = builtin('node:os')?.uptime
  const isUptimeKnown = uptime !== undefined && (permitted(uptime) ?? 0) > 0
  return {
    monotonicMs() {
      if (hrtime === undefined) return performance.now()
      const [seconds, nanoseconds] = hrtime()
      return seconds * 1000 + nanoseconds / 1e6
    },
    // The wall clock goes on in a sleep as well. Setting it forward ends leases early, which is safe.
    uptimeMs: isUptimeKnown ? () => uptime() * 1000 : () => Date.now(),
    isShared: runtime === 'Node',
  }
}

/** Numbers that Linux has for its clocks. */
const clockMonotonic = 1
const clockBoottime = 7
/** The C library of most systems, and that of Alpine. */
const libraries = ['libc.so.6', `libc.musl-${runtimeProcess?.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`]

/** `int clock_gettime(clockid_t, struct timespec *)` */
type ClockGettime = (clock: number, time: BigInt64Array) => number

/** Reads a clock of Linux in milliseconds. Undefined where that cannot be done. */
function clockOfLinux(): ((clock: number) => number) | undefined {
  if (runtimeProcess?.platform !== 'linux') return undefined
  for (const library of libraries) {
    try {
      const clockGettime = runtime === 'Bun' ? openInBun(library) : openInDeno(library)
      if (clockGettime === undefined) return undefined
      const time = new BigInt64Array(2)
      const read = (clock: number): number => {
        if (clockGettime(clock, time) !== 0) throw new Error(`clock_gettime(${clock}) failed`)
        return Number(time[0]) * 1000 + Number(time[1]) / 1e6
      }
      read(clockMonotonic)
      read(clockBoottime)
      return read
    } catch {
      // Another library may be there.
    }
  }
  return undefined
}

interface BunFfi {
  dlopen(library: string, symbols: object): { symbols: { clock_gettime(clock: number, time: unknown): number } }
  ptr(memory: BigInt64Array): unknown
}

function openInBun(library: string): ClockGettime | undefined {
  const { FFI: ffi } = (globalThis as unknown as { Bun: { FFI?: BunFfi } }).Bun
  const opened = ffi?.dlopen(library, { clock_gettime: { args: ['i32', 'ptr'], returns: 'i32' } })
  return opened && ((clock, time) => opened.symbols.clock_gettime(clock, ffi?.ptr(time)))
}

interface DenoFfi {
  dlopen(library: string, symbols: object): { symbols: { clock_gettime: ClockGettime } }
  permissions: { querySync(wanted: { name: 'ffi'; path: string }): { state: string } }
}

/** Undefined where it is not allowed: to try would prompt the user at the terminal. */
function openInDeno(library: string): ClockGettime | undefined {
  const { Deno: deno } = globalThis as unknown as { Deno: DenoFfi }
  if (deno.permissions.querySync({ name: 'ffi', path: library }).state !== 'granted') return undefined
  const symbols = { clock_gettime: { parameters: ['i32', 'buffer'], result: 'i32' } }
  return deno.dlopen(library, symbols).symbols.clock_gettime
}

const machine = machineClock()

/** Whether {@link monotonicMs} reads the same in every process of this machine and in every thread of this process. */
export const isClockShared = machine.isShared

/**
 * `performance.now()` counts from the start of the thread; this moves it to the clock that all threads share. Of several
 * tries the quickest counts: a pause between the readings would set the clock of this process back against all others.
 */
const threadStartMs = (() => {
  let quickest = Infinity
  let startMs = 0
  for (let tries = 0; tries < 16; tries += 1) {
    const before = performance.now()
    const monotonic = machine.monotonicMs()
    const after = performance.now()
    if (after - before >= quickest) continue
    quickest = after - before
    startMs = monotonic - (before + after) / 2
  }
  return startMs
})()

/**
 * The monotonic clock of this machine: the same for every thread and, on Linux, for every process (but see
 * {@link isClockShared}). Stops in a sleep. @internal
 */
export function monotonicMs(): number {
  return performance.now() + threadStartMs
}

/** How long the machine has been up, sleep included. Where that is not known, the wall clock. @internal */
export function uptimeMs(): number {
  return machine.uptimeMs()
}
