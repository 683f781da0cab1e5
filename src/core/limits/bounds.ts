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
