/** How large the published package may be, in bytes. */
export const packedBytesMax = 650_000
export const unpackedBytesMax = 2_500_000
