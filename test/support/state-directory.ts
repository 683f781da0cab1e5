import { makeFolder, removeFolder } from './scratch-folder.ts'

/** Gives the whole run a state directory of its own: no test may read or write the locks of the person who runs it. */
export default function useOwnStateDirectory(): () => void {
  const folder = makeFolder('state')
  process.env['LEASEHOLD_STATE_DIR'] = folder
  return () => removeFolder(folder)
}
