import { builtin } from '../machine/runtime.ts'

/** The most metadata of a caller, in bytes of JSON: it is stored with every claim. */
export const metadataBytesMax = 8192
/** How deep metadata may be nested, so that every store and every program that shows it can read it. */
export const metadataDepthMax = 64

/** A year: the longest duration sent to a store, so that sums of times stay whole numbers of a double. */
export const yearMs = 31_536_000_000

/** The least and the most that a number may be. */
export interface Bounds {
  readonly least: number
  readonly most: number
}

/** The bounds of a request that are the same for every store. Our own client stays far below the longest texts. */
export const requestBounds = {
  /** A namespace of 64, a kind, and a name of 512. */
  keyBytesMax: 1024,
  idBytesMax: 1024,
  runnerTextBytesMax: 1024,
  ownerBytesMax: 4096,
  /** Keys that a runner names as held by its owner: they are stored with the claim. */
  holdsMax: 16,
  reasonBytesMax: 1024,
  /** The metadata of a client, that of a claim, and what Leasehold adds. */
  metadataBytesMax: 2 * metadataBytesMax + 1024,
  priority: { least: -1000, most: 1000 },
  positive: { least: 1, most: Number.MAX_SAFE_INTEGER },
  natural: { least: 0, most: Number.MAX_SAFE_INTEGER },
  /** Shared holders at once: an int of 32 bits in every store. */
  permits: { least: 1, most: 2_147_483_647 },
  /** Leaves room for more fences after the highest floor: a million a second, for years. */
  fenceFloor: { least: 0, most: 2 ** 53 - 2 ** 50 },
} as const

/** Whether a value is a whole number within bounds. */
export function isWithin(value: unknown, { least, most }: Bounds): value is number {
  return Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most
}

/** The requirement that a number of these bounds must meet, for errors. */
export function wholeNumber({ least, most }: Bounds): string {
  return `must be a whole number from ${least} to ${most}`
}

/** What is wrong with a text of at most `bytesMax` bytes and at least `least` characters; undefined if nothing is. */
export function textFault(text: unknown, bytesMax: number, least = 1): string | undefined {
  if (typeof text !== 'string') return 'must be text'
  if (text.length < least) return 'must not be empty'
  // A UTF-16 unit takes three bytes at most: only long texts need counting.
  if (text.length * 3 > bytesMax && utf8Length(text) > bytesMax) return `must be at most ${bytesMax} bytes long`
  // Some stores can keep neither a lone surrogate nor a NUL, and would refuse the whole batch.
  if (!text.isWellFormed()) return 'must be well-formed Unicode'
  if (text.includes('\0')) return 'must not have a NUL character'
  return undefined
}

/** What is wrong with the metadata of a claim; undefined if nothing is. Writes JSON only if it may be too long. */
export function metadataFault(metadata: unknown): string | undefined {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return 'must be an object'
  if (checkedMetadata.has(metadata)) return undefined
  const size = { least: 0, most: 0, isDeeper: false }
  measure(metadata, metadataDepthMax, size)
  const bytesMax = requestBounds.metadataBytesMax
  if (size.isDeeper) return `must be nested at most ${metadataDepthMax} deep`
  if (size.most <= bytesMax) return undefined
  const isTooLong = size.least > bytesMax || !(bytesOf(metadata) <= bytesMax)
  return isTooLong ? `must be at most ${bytesMax} bytes of JSON` : undefined
}

/** Metadata from a peer that was found to be right. */
const checkedMetadata = new WeakSet<object>()

/** As {@link metadataFault}, for metadata that was just read and that nothing else changes: later checks of it cost nothing. */
export function readMetadataFault(metadata: unknown): string | undefined {
  const fault = metadataFault(metadata)
  if (fault === undefined) checkedMetadata.add(metadata as object)
  return fault
}

/** Bounds of how many bytes a value takes as JSON. */
interface Size {
  least: number
  most: number
  isDeeper: boolean
}

/** Adds up how many bytes a value may take as JSON, without writing it, until it is too deep or certainly too long. */
function measure(value: unknown, levels: number, size: Size): void {
  if (typeof value === 'string') return addText(value, size)
  size.least += 1
  // A number, boolean or null takes at most 24 characters. A bigint cannot be written: it counts as endless.
  if (typeof value !== 'object' || value === null) {
    size.most += typeof value === 'bigint' ? Infinity : 26
    return
  }
  if (levels === 0) {
    size.isDeeper = true
    return
  }
  // An object with toJSON may write anything.
  size.most += 'toJSON' in value ? Infinity : 2
  if (Array.isArray(value)) {
    for (const part of value as readonly unknown[]) {
      measure(part, levels - 1, size)
      // A comma.
      size.most += 1
      if (size.isDeeper || size.least > requestBounds.metadataBytesMax) return
    }
    return
  }
  for (const name of Object.keys(value)) {
    addText(name, size)
    measure((value as Readonly<Record<string, unknown>>)[name], levels - 1, size)
    if (size.isDeeper || size.least > requestBounds.metadataBytesMax) return
  }
}

/** In JSON a character takes at most six bytes; four more are for quotes, colon and comma. */
function addText(text: string, size: Size): void {
  size.least += text.length
  size.most += 6 * text.length + 4
}

/** The bytes of a value as JSON; Infinity if it cannot be written. */
function bytesOf(value: object): number {
  try {
    return utf8Length(JSON.stringify(value))
  } catch {
    return Infinity
  }
}

/** From Node's module if there is one: Jest's jsdom has no such global. */
const encoder = new (builtin('node:util')?.TextEncoder ?? TextEncoder)()

/** How many bytes a text takes. */
export function utf8Length(text: string): number {
  return encoder.encode(text).length
}
