import { randomBytes } from 'node:crypto'

/** Which process this is, as far as the machine can tell processes apart. */
export interface ProcessIdentity {
  /**
   * The pid namespace, and what a time namespace adds to start times; empty where it is not known. A stamp proves nothing
   * where this differs.
   */
  readonly namespace: string
  readonly pid: number
  /** When it started, in the kernel's ticks since boot; 0 where that is not known. */
  readonly started: number
}

/** The liveness stamp of a claim: which driver of which process last claimed or renewed it. */
export interface LivenessStamp extends ProcessIdentity {
  readonly boot: string
  /** Two drivers in one process differ by this. */
  readonly serial: string
}

const pattern = /^([A-Za-z0-9.+-]+)_([\d.+-]*)_(\d+)_(\d+)_([0-9a-f]{16})$/

/** A fresh owner for one driver. @internal */
export function newStamp(boot: string, process: ProcessIdentity): LivenessStamp {
  return { boot, ...process, serial: randomBytes(8).toString('hex') }
}

/** The owner as stored with each claim, which is also the name of its inbox file. @internal */
export function stampText({ boot, namespace, pid, started, serial }: LivenessStamp): string {
  return `${boot}_${namespace}_${pid}_${started}_${serial}`
}

/** Reads a stored owner. Undefined: not one of ours, so it proves nothing and has no inbox. @internal */
export function parseStamp(name: string): LivenessStamp | undefined {
  const [, boot, namespace, pid, started, serial] = pattern.exec(name) ?? []
  if (boot === undefined || serial === undefined) return undefined
  return { boot, namespace: namespace ?? '', pid: Number(pid), started: Number(started), serial }
}
