import { builtin } from '../machine/runtime.ts'

/** The most a caller may say about itself, as JSON: it is stored with every claim. */
export const metadataBytesMax = 8192
/** How deep metadata may be nested: whoever shows it, or a store that reads it, can do so then. */
export const metadataDepthMax = 64

/** A year: the longest duration a store is asked for, so that times stay whole numbers that a double can add up. */
export const yearMs = 31_536_000_000

/** Least and most of a number, both allowed. */
export interface Bounds {
  readonly least: number
  readonly most: number
}

/** The bounds of a request that are the same for every store. A client of ours stays far below the longest texts. */
export const requestBounds = {
  /** A namespace of 64, a kind, and a name of 512. */
  keyBytesMax: 1024,
  idBytesMax: 1024,
  runnerTextBytesMax: 1024,
  ownerBytesMax: 4096,
  reasonBytesMax: 1024,
  /** What a client says of itself, what its caller says of the claim, and what is added by itself. */
  metadataBytesMax: 2 * metadataBytesMax + 1024,
  priority: { least: -1000, most: 1000 },
  positive: { least: 1, most: Number.MAX_SAFE_INTEGER },
  natural: { least: 0, most: Number.MAX_SAFE_INTEGER },
  /** Shared holders at once: an int of 32 bits in every store. */
  permits: { least: 1, most: 2_147_483_647 },
  /** Whatever the last fence is, more must follow: for years, a million a second. */
  fenceFloor: { least: 0, most: 2 ** 53 - 2 ** 50 },
} as const

export function isWithin(value: unknown, { least, most }: Bounds): value is number {
  return Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most
}

/** What a number of these bounds must be, for errors. */
export function wholeNumber({ least, most }: Bounds): string {
  return `must be a whole number from ${least} to ${most}`
}

/** What is wrong with a text of at most so many bytes, not empty where `least` is 1; undefined if nothing is. */
export function textFault(text: unknown, bytesMax: number, least = 1): string | undefined {
  if (typeof text !== 'string') return 'must be text'
  if (text.length < least) return 'must not be empty'
  // A character of a string takes three bytes at most, and only long texts are worth counting.
  if (text.length * 3 > bytesMax && utf8Length(text) > bytesMax) return `must be at most ${bytesMax} bytes long`
  // Some stores can keep neither, and would refuse all that is sent together with it.
  if (!text.isWellFormed()) return 'must be well-formed Unicode'
  if (text.includes('\0')) return 'must not have a NUL character'
  return undefined
}

/** What is wrong with the metadata of a claim; undefined if nothing is. Quick, unless the metadata is near its limit. */
export function metadataFault(metadata: unknown): string | undefined {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return 'must be an object'
  const size = { least: 0, most: 0, isDeeper: false }
  measure(metadata, metadataDepthMax, size)
  const bytesMax = requestBounds.metadataBytesMax
  if (size.isDeeper) return `must be nested at most ${metadataDepthMax} deep`
  if (size.most <= bytesMax) return undefined
  const isTooLong = size.least > bytesMax || !(bytesOf(metadata) <= bytesMax)
  return isTooLong ? `must be at most ${bytesMax} bytes of JSON` : undefined
}

/** Bounds of what a value takes as JSON. */
interface Size {
  least: number
  most: number
  isDeeper: boolean
}

/** Adds up what a value may take as JSON, without writing it, until it is too deep or certainly too long. */
function measure(value: unknown, levels: number, size: Size): void {
  if (typeof value === 'string') return addText(value, size)
  size.least += 1
  // What is neither text nor object is written in 24 characters, or cannot be written: then it is counted as endless.
  if (typeof value !== 'object' || value === null) {
    size.most += typeof value === 'bigint' ? Infinity : 26
    return
  }
  if (levels === 0) {
    size.isDeeper = true
    return
  }
  // An object that says itself how it is written may write anything.
  size.most += 'toJSON' in value ? Infinity : 2
  for (const name in value) {
    addText(name, size)
    measure((value as Readonly<Record<string, unknown>>)[name], levels - 1, size)
    if (size.isDeeper || size.least > requestBounds.metadataBytesMax) return
  }
}

/** In JSON a character takes six bytes at most; quotes, a colon and a comma come with it. */
function addText(text: string, size: Size): void {
  size.least += text.length
  size.most += 6 * text.length + 4
}

/** Infinity: it cannot be written. */
function bytesOf(value: object): number {
  try {
    return utf8Length(JSON.stringify(value))
  } catch {
    return Infinity
  }
}

/** Node has it in a module too: among the globals of Jest's jsdom it is missing. */
const encoder = new (builtin('node:util')?.TextEncoder ?? TextEncoder)()

/** How many bytes a text takes. */
export function utf8Length(text: string): number {
  return encoder.encode(text).length
}
