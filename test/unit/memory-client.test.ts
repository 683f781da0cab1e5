import { clientConformance } from '../../src/testing/index.ts'
import { memoryHarness } from './support/memory-harness.ts'

clientConformance('memory', memoryHarness)
