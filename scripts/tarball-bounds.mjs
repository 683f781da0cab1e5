/** How large the published package may be, in bytes. */
export const packedBytesMax = 720 * 1024
export const unpackedBytesMax = 2_650_000
