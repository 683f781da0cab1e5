import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** Gives the whole run a state directory of its own: no test may read or write the locks of the person who runs it. */
export default function useOwnStateDirectory(): () => void {
  const folder = mkdtempSync(path.join(tmpdir(), 'leasehold-state-'))
  process.env['LEASEHOLD_STATE_DIR'] = folder
  return () => rmSync(folder, { recursive: true, force: true })
}
