/** A page that can play the scenario. */
import { play } from './scenario.ts'

Object.assign(globalThis, { play })
