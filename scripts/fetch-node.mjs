// Brings a version of Node from npm, once, into node_modules/.cache, and prints where its program is:
//
//   node scripts/fetch-node.mjs 22.13.1
//
// It takes some seconds and 120 MB.
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { fetchProgram } from './fetch-program.mjs'

const isWindows = process.platform === 'win32'

/** The program of a version, such as 22.13.1. Throws if npm does not have it or cannot be reached. */
export function fetchNode(version) {
  return fetchProgram({
    name: `node-${isWindows ? 'win' : process.platform}-${process.arch}`,
    version,
    file: isWindows ? 'bin/node.exe' : 'bin/node',
    folder: path.join('node-versions', version),
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(fetchNode(process.argv[2]))
