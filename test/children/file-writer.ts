/** Writes a file through its guard, once. Argument: the file. */
import { fileGuard } from '../../src/guards/index.ts'

await fileGuard(process.argv[2] ?? '').write('written', 118)
