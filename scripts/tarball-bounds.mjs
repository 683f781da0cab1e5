/** How large the published package may be, in bytes. */
export const packedBytesMax = 912 * 1024
export const unpackedBytesMax = 3_250_000
