/** Takes the place of `own-location.ts` in the CommonJS build. */
import { pathToFileURL } from 'node:url'

/** The URL of this module: from there packages are looked up. */
export function ownLocation(): string {
  return pathToFileURL(__filename).href
}
