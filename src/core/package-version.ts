/** The version of this package. */
export const packageVersion = '0.1.0'
