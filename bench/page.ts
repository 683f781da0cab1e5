/** Writes docs/benchmarks.md and its plots out of the results that `all` has kept. Runs nothing. */
import { fileURLToPath } from 'node:url'
import { writePage } from './page/page.ts'
import { readResults } from './page/results.ts'

const docs = fileURLToPath(new URL('../../docs', import.meta.url))
writePage(docs, readResults(docs))
console.log('Written: docs/benchmarks.md')
