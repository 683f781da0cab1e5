/** The token of a principal of a test server. */
export const tokenOf = (name: string): string => `secret-of-${name}-0123456789`
