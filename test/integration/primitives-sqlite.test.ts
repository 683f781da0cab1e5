import { primitivesConformance } from '../../src/testing/index.ts'
import { sqliteHarness } from '../sqlite/harness.ts'

primitivesConformance('sqlite', sqliteHarness)
