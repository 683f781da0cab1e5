import { clientConformance } from '../../src/testing/index.ts'
import { sqliteHarness } from '../sqlite/harness.ts'

clientConformance('sqlite', sqliteHarness)
