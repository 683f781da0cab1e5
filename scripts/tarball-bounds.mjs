/** How large the published package may be, in bytes. */
export const packedBytesMax = 870 * 1024
export const unpackedBytesMax = 3_080_000
