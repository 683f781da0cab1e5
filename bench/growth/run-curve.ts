import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { CurveMessage, CurveOrder } from '../children/growth-curve.ts'
import type { Curve, Point, StoreName } from './curve.ts'
import { sizesOf } from './dimensions.ts'
import { startStore } from './stores.ts'

/** How long one size may take to fill and to measure. */
const pointMs = 150_000
/** A process that says nothing for this long hangs. */
const silenceMs = pointMs + 60_000

/** Measures a curve on a fresh store, in a process of its own that is killed if it hangs. Prints each point as it comes. */
export async function runCurve(store: StoreName, dimension: string): Promise<Curve> {
  const started = await startStore(store)
  try {
    const sizes = sizesOf(dimension, store)
    return await ordered({ store, where: started.where, dimension, sizes, pointMs })
  } finally {
    await started.stop()
  }
}

function ordered(order: CurveOrder): Promise<Curve> {
  const points: Point[] = []
  const file = fileURLToPath(new URL('../children/growth-curve.js', import.meta.url))
  const child = fork(file, [JSON.stringify(order)], { execArgv: ['--max-old-space-size=6000'] })
  let failure = 'the process ended'
  let hangs: NodeJS.Timeout | undefined
  const watch = (): void => {
    clearTimeout(hangs)
    hangs = setTimeout(() => {
      failure = `not within ${silenceMs / 1000} s`
      child.kill('SIGKILL')
    }, silenceMs)
  }
  watch()
  child.on('message', (message: CurveMessage) => {
    watch()
    if (message === 'done') return
    if ('failed' in message) failure = message.failed
    else {
      points.push(message.point)
      print(order, message.point, message.fillMs)
    }
  })
  return new Promise((resolve) => {
    child.once('exit', () => {
      clearTimeout(hangs)
      const { store, dimension, sizes } = order
      const measuredOn = new Date().toISOString().slice(0, 10)
      const fromSize = sizes[points.length]
      if (fromSize !== undefined) console.log(`${store} ${dimension} ${fromSize}: MISSED, ${failure}`)
      const missed = fromSize === undefined ? {} : { missed: { fromSize, reason: failure } }
      resolve({ store, dimension, measuredOn, points, ...missed })
    })
  })
}

function print({ store, dimension }: CurveOrder, point: Point, fillMs: number): void {
  const { size, costs, busyFilling, busyWorking, quietP99Us, bystanderP99Us, lost } = point
  const words = Object.entries(costs).map(([name, us]) => `${name} ${Math.round(us)}`)
  const busy = [busyFilling, busyWorking].map(({ loopMs, storeMs = 0 }) => `${loopMs.toFixed(0)}/${storeMs.toFixed(0)}`)
  console.log(
    `${store} ${dimension} ${size}: ${words.join(', ')} µs; busy (loop/store) filling ${busy[0]}, working ${busy[1]} ms; ` +
      `bystander p99 ${Math.round(quietP99Us)} then ${Math.round(bystanderP99Us)} µs; lost ${lost}; filled in ${(fillMs / 1000).toFixed(1)} s`,
  )
}
