/** Whether this run has the long rest, too: `npm run test:all` sets TEST_ALL. */
export const isLong = process.env['TEST_ALL'] === '1'

/** How often a test plays: `few` times in `npm test`, `many` times in `npm run test:all`. */
export function rounds(few: number, many: number): number {
  return isLong ? many : few
}
