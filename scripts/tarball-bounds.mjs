/** How large the published package may be, in bytes. */
export const packedBytesMax = 700 * 1024
export const unpackedBytesMax = 2_500_000
