/** Started by `growth`: a bystander in a process of its own. Answers each message with what it has seen since the last. */
import { Pairs } from '../growth/bystander.ts'
import type { StoreName } from '../growth/curve.ts'
import { driverOf } from '../growth/stores.ts'
import { ready } from '../support/child.ts'

const [store, where] = process.argv.slice(2) as [StoreName, string]
const pairs = await Pairs.start(driverOf(store, where))
process.on('message', () => void pairs.ask().then((seen) => process.send?.(seen)))
ready()
