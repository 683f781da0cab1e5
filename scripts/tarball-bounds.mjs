/** How large the published package may be, in bytes. */
export const packedBytesMax = 850 * 1024
export const unpackedBytesMax = 3_000_000
