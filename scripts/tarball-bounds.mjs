/** How large the published package may be, in bytes. */
export const packedBytesMax = 790 * 1024
export const unpackedBytesMax = 2_850_000
