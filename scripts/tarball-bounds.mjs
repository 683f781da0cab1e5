/** How large the published package may be, in bytes. */
export const packedBytesMax = 900 * 1024
export const unpackedBytesMax = 3_220_000
