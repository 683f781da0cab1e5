import { primitivesConformance } from '../../src/testing/index.ts'
import { memoryHarness } from './support/memory-harness.ts'

primitivesConformance('memory', memoryHarness)
