import { context, ROOT_CONTEXT, SpanStatusCode, trace, type Context, type HrTime } from '@opentelemetry/api'
import { MeterProvider, MetricReader, type MetricData } from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-base'
import { afterEach, describe, expect, test } from 'vitest'
import type { Locks } from '../../src/index.ts'
import { openTelemetry, type Meter, type OpenTelemetryOptions } from '../../src/telemetry/opentelemetry.ts'
import { locksBench } from './support/bench-of-locks.ts'
import { playStory, published, stage } from './support/eventful-story.ts'
import { clientOf } from '../support/client-of.ts'

class Reader extends MetricReader {
  protected override onForceFlush(): Promise<void> {
    return Promise.resolve()
  }

  protected override onShutdown(): Promise<void> {
    return Promise.resolve()
  }
}

/** The real SDK's meter, and what it has collected by name. */
function metering() {
  const reader = new Reader()
  const provider = new MeterProvider({ readers: [reader] })
  const meter = provider.getMeter('leasehold')
  const collect = async (): Promise<(name: string) => MetricData | undefined> => {
    const { resourceMetrics, errors } = await reader.collect()
    expect(errors).toEqual([])
    const all = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics)
    return (name) => all.find(({ descriptor }) => descriptor.name === `leasehold.${name}`)
  }
  return { meter, collect }
}

/** The real SDK's tracer, and the spans that have ended. */
function tracing() {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  return { tracer: provider.getTracer('leasehold'), spans: () => exporter.getFinishedSpans() }
}

const attached: Disposable[] = []
afterEach(() => {
  for (const each of attached.splice(0)) each[Symbol.dispose]()
})

/** Until the end of the test. */
function attach<Parent>(locks: Locks, options: OpenTelemetryOptions<Parent>): void {
  attached.push(openTelemetry(locks, options))
}

const points = (data: MetricData | undefined) => data?.dataPoints.map(({ attributes, value }) => [attributes, value])
const sumOf = (data: MetricData | undefined): number =>
  (data?.dataPoints ?? []).reduce((sum, { value }) => sum + (typeof value === 'number' ? value : value.count), 0)
const millisecondsOf = ([seconds, nanoseconds]: HrTime): number => seconds * 1000 + nanoseconds / 1e6
const lengthOf = ({ startTime, endTime }: ReadableSpan): number => millisecondsOf(endTime) - millisecondsOf(startTime)

function isReceivedNowhere(locks: Locks): boolean {
  const names = ['acquired', 'takeover', 'renewed', 'jeopardy', 'released', 'lost', 'passed-on', 'failed'] as const
  return !names.some((name) => clientOf(locks).hasListener(name))
}

describe('a meter', () => {
  test('counts what stats() counts, after a story in which everything happens', async () => {
    const scene = await stage()
    const { meter, collect } = metering()
    attach(scene.watched, { meter })
    await playStory(scene)
    const collected = await collect()
    for (const [name, count] of Object.entries((await scene.watched.stats()).counters)) {
      expect({ [name]: sumOf(collected(published[name] ?? '')) }).toEqual({ [name]: count })
      expect(count, `${name} does not happen in the story`).toBeGreaterThan(0)
    }
    const namespace = { 'leasehold.namespace': 'shop' }
    expect(points(collected('failed'))).toEqual([
      [{ ...namespace, 'error.type': 'TIMEOUT' }, 1],
      [{ ...namespace, 'error.type': 'HELD' }, 1],
    ])
    expect(collected('acquired')?.descriptor).toMatchObject({ unit: '{lease}', description: 'Leases granted.' })
  })

  test('has what was waited and held, in seconds, by how it ended', async () => {
    const { bench, watched, rival } = await stage()
    const { meter, collect } = metering()
    attach(watched, { meter })
    const held = await rival.acquire('a')
    const waiting = watched.acquire('a')
    await bench.advance(500)
    await held.release()
    const lease = await waiting
    await bench.advance(2000)
    await lease.release()
    const collected = await collect()
    expect(collected('wait')?.descriptor.unit).toBe('s')
    expect(points(collected('wait'))).toMatchObject([[{ 'leasehold.outcome': 'acquired' }, { sum: 0.5, count: 1 }]])
    const holds = points(collected('hold'))
    expect(holds).toMatchObject([[{ 'leasehold.outcome': 'released' }, { sum: 2, count: 1 }]])
    expect(holds).toMatchObject([[{}, { buckets: { boundaries: expect.arrayContaining([0.001, 3600]) as number[] } }]])
  })

  test('is told what is held, renewed and asked for, and how the namespace looks', async () => {
    const { bench, watched, rival } = await stage()
    const { meter, collect } = metering()
    attach(watched, { meter })
    expect((await collect())('lease_remaining')).toBeUndefined()
    await rival.acquire('b')
    await watched.acquire('c')
    await watched.acquire('d', { heartbeat: 'manual' })
    const waiting = watched.acquire('b')
    await bench.advance(10)
    const collected = await collect()
    const namespace = { 'leasehold.namespace': 'shop' }
    expect(points(collected('leases_held'))).toEqual([[namespace, 2]])
    expect(points(collected('heartbeats'))).toEqual([[namespace, 1]])
    expect(points(collected('acquisitions_pending'))).toEqual([[namespace, 1]])
    expect(points(collected('up'))).toEqual([[namespace, 1]])
    expect(sumOf(collected('lease_remaining'))).toBeGreaterThan(0)
    expect(points(collected('locks'))).toEqual([
      [{ ...namespace, 'leasehold.state': 'active' }, 3],
      [{ ...namespace, 'leasehold.state': 'stale' }, 0],
    ])
    await Promise.all([watched.close(), waiting.catch(() => undefined)])
    expect(points((await collect())('up'))).toEqual([[namespace, 0]])
  })

  test('is not told of the store if that is not to be listed', async () => {
    const locks = await locksBench().client()
    const { meter, collect } = metering()
    attach(locks, { meter, store: false })
    const collected = await collect()
    expect([collected('up'), collected('locks')]).toEqual([undefined, undefined])
    expect(sumOf(collected('leases_held'))).toBe(0)
  })

  test('has the attributes that the caller gives', async () => {
    const locks = await locksBench().client()
    const { meter, collect } = metering()
    attach(locks, { meter, attributes: ({ scope }) => ({ kind: scope.slice(0, 1) }) })
    await locks.acquire('order')
    expect(points((await collect())('acquired'))).toEqual([[{ 'leasehold.namespace': 'default', kind: 'o' }, 1]])
  })

  test('is told nothing more once that is disposed of', async () => {
    const locks = await locksBench().client()
    const { meter, collect } = metering()
    const telemetry = openTelemetry(locks, { meter, tracer: tracing().tracer })
    await locks.acquire('a')
    telemetry[Symbol.dispose]()
    await locks.acquire('b')
    const collected = await collect()
    expect(sumOf(collected('acquired'))).toBe(1)
    expect(collected('leases_held')).toBeUndefined()
    expect(isReceivedNowhere(locks)).toBe(true)
  })
})

describe('a tracer', () => {
  afterEach(() => context.disable())

  test('has a span for each lease, from its grant to its end', async () => {
    const scene = await stage()
    const { tracer, spans } = tracing()
    const ends: object[] = []
    for (const name of ['released', 'lost', 'passed-on'] as const) {
      scene.watched.on(name, ({ fence, heldMs, scope, key }) => ends.push({ fence, scope, key, length: heldMs }))
    }
    attach(scene.watched, { tracer })
    await playStory(scene)
    const holds = spans().filter(({ name }) => name === 'leasehold.hold')
    expect(
      holds.map((span) => ({
        fence: span.attributes['leasehold.fence'],
        scope: span.attributes['leasehold.scope'],
        key: span.attributes['leasehold.key'],
        length: Math.round(lengthOf(span)),
      })),
    ).toEqual(ends)
    expect(holds.map(({ attributes }) => [attributes['leasehold.scope'], attributes['leasehold.ended']])).toEqual([
      ['a', 'released'],
      ['b', 'released'],
      ['d', 'lost'],
      ['e', 'released'],
      ['f', 'converted'],
      ['f', 'released'],
      ['g', 'handed-off'],
    ])
    expect(holds[1]?.attributes).toMatchObject({ 'leasehold.wait': 0.5, 'leasehold.namespace': 'shop' })
  })

  test('begins a span at the time of the grant, and notes on it what happens to the lease', async () => {
    const scene = await stage()
    const { tracer, spans } = tracing()
    attach(scene.watched, { tracer })
    let grantedAt = 0
    scene.watched.on('acquired', ({ scope }) => {
      if (scope === 'd') grantedAt = scene.bench.environment.wall()
    })
    await playStory(scene)
    const span = spans().find(({ attributes }) => attributes['leasehold.scope'] === 'd')
    expect(millisecondsOf(span?.startTime ?? [0, 0])).toBe(grantedAt)
    const noted = new Set(span?.events.map(({ name }) => name))
    expect([...noted]).toEqual(['leasehold.takeover', 'leasehold.renewal-failed', 'leasehold.jeopardy'])
    expect(span?.status).toEqual({
      code: SpanStatusCode.ERROR,
      message: expect.stringMatching(/^LOST: expired: /) as string,
    })
    expect(span?.attributes).toMatchObject({ 'leasehold.ended': 'lost', 'error.type': 'LOST' })
  })

  test('has a span for each acquisition that failed, as long as was waited', async () => {
    const scene = await stage()
    const { tracer, spans } = tracing()
    attach(scene.watched, { tracer })
    await playStory(scene)
    const failed = spans().filter(({ name }) => name === 'leasehold.acquire')
    expect(failed.map((span) => [span.attributes['error.type'], span.status.code, lengthOf(span)])).toEqual([
      ['TIMEOUT', SpanStatusCode.ERROR, 3000],
      ['HELD', SpanStatusCode.ERROR, 0],
    ])
  })

  test('makes roots, whatever is active when the grant is heard of', async () => {
    const locks = await locksBench().client()
    const { tracer, spans } = tracing()
    attach(locks, { tracer })
    const stranger = trace.setSpan(ROOT_CONTEXT, tracer.startSpan('stranger'))
    activate(stranger)
    await (await locks.acquire('a')).release()
    expect(spans().map(({ parentSpanContext }) => parentSpanContext)).toEqual([undefined])
  })

  test('makes children of the context that the caller names', async () => {
    const locks = await locksBench().client()
    const { tracer, spans } = tracing()
    const job = tracer.startSpan('job')
    attach(locks, {
      tracer,
      parent: ({ scope }) => (scope === 'a' ? trace.setSpan(ROOT_CONTEXT, job) : undefined),
    })
    await (await locks.acquire('a')).release()
    await (await locks.acquire('b')).release()
    const parents = spans().map(({ parentSpanContext }) => parentSpanContext?.spanId)
    expect(parents).toEqual([job.spanContext().spanId, undefined])
  })

  test('ends the spans that are open when that is disposed of, and says that the lease was not over', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    const { tracer, spans } = tracing()
    const telemetry = openTelemetry(locks, { tracer })
    const lease = await locks.acquire('a')
    await bench.advance(1000)
    telemetry[Symbol.dispose]()
    expect(spans().map((span) => [span.attributes['leasehold.ended'], lengthOf(span)])).toEqual([['not yet', 1000]])
    await lease.release()
    telemetry[Symbol.dispose]()
    expect(spans()).toHaveLength(1)
  })

  test('has nothing open after the client has been closed', async () => {
    const locks = await locksBench().client()
    const { tracer, spans } = tracing()
    attach(locks, { tracer })
    await locks.acquire('a')
    await locks.close()
    expect(spans().map(({ attributes }) => attributes['leasehold.ended'])).toEqual(['released'])
  })
})

describe('what throws', () => {
  const fail = (): never => {
    throw new Error('broken')
  }

  test('reaches the logger and not who wants a lock', async () => {
    const complaints: string[] = []
    const logger = { debug() {}, info() {}, warn: (message: string) => void complaints.push(message), error() {} }
    const locks = await locksBench().client({ logger })
    const broken: Meter = {
      createCounter: () => ({ add: fail }),
      createHistogram: () => ({ record: fail }),
      createObservableGauge: () => ({}),
      addBatchObservableCallback: () => {},
      removeBatchObservableCallback: () => {},
    }
    const span = { setAttribute: fail, addEvent: fail, setStatus: fail, end: fail }
    const telemetry = openTelemetry(locks, { meter: broken, tracer: { startSpan: () => span } })
    const lease = await locks.acquire('a')
    expect(await lease.release()).toEqual({ released: true })
    await locks.acquire('b')
    expect(await locks.tryAcquire('b')).toBeNull()
    await expect(locks.acquire('b', { onConflict: 'fail' })).rejects.toMatchObject({ code: 'HELD' })
    telemetry[Symbol.dispose]()
    expect(new Set(complaints)).toEqual(
      new Set(['acquired', 'released', 'contention', 'failed'].map((name) => `A listener for '${name}' threw: broken`)),
    )
  })

  test('a parent that cannot be told costs the span, not the count', async () => {
    const locks = await locksBench().client()
    const { meter, collect } = metering()
    const { tracer, spans } = tracing()
    attach(locks, { meter, tracer, parent: fail, attributes: fail })
    await (await locks.acquire('a')).release()
    expect(spans()).toEqual([])
    expect(sumOf((await collect())('released'))).toBe(1)
  })

  test('a meter that can make no instruments leaves no listener behind', async () => {
    const locks = await locksBench().client()
    const { meter } = metering()
    const broken = Object.assign(Object.create(meter) as typeof meter, { addBatchObservableCallback: fail })
    expect(() => openTelemetry(locks, { meter: broken, tracer: tracing().tracer })).toThrow('broken')
    expect(isReceivedNowhere(locks)).toBe(true)
  })

  test('neither a meter nor a tracer is INVALID', async () => {
    const locks = await locksBench().client()
    expect(() => openTelemetry(locks, {})).toThrow('INVALID: openTelemetry needs a meter, a tracer or both.')
  })
})

/** Makes a context the active one, for everybody. */
function activate(active: Context): void {
  context.setGlobalContextManager({
    active: () => active,
    with: (_context, run, self, ...given) => run.call(self as never, ...given),
    bind: (_context, target) => target,
    enable() {
      return this
    },
    disable() {
      return this
    },
  })
}
