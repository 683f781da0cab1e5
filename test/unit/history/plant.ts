import type { HistoryEvent, ViolationKind } from '../../../src/testing/index.ts'

/** A fault to plant in a right history. `plant` gives nothing where the history has no place for it. */
export interface Planting {
  readonly trade: string
  readonly kind: ViolationKind
  plant(events: readonly HistoryEvent[], random: () => number): HistoryEvent[] | undefined
}

type Granted = Extract<HistoryEvent, { type: 'granted' }>
type Acquire = Extract<HistoryEvent, { type: 'acquire' }>

/** One claim from beginning to end. */
interface Story {
  readonly acquire: Acquire
  readonly granted: Granted
  readonly releasedAt: number
  readonly queuedAt: number | undefined
}

function storiesOf(events: readonly HistoryEvent[]): Story[] {
  const stories = new Map<string, { acquire: Acquire; granted?: Granted; releasedAt?: number; queuedAt?: number }>()
  for (const event of events) {
    if (event.type === 'acquire') stories.set(event.attempt, { acquire: event })
    if (!('attempt' in event)) continue
    const story = stories.get(event.attempt)
    if (story === undefined) continue
    if (event.type === 'granted') story.granted = event
    if (event.type === 'release') story.releasedAt = event.at
    if (event.type === 'queued') story.queuedAt = event.at
  }
  return [...stories.values()]
    .flatMap(({ acquire, granted, releasedAt, queuedAt }) =>
      granted === undefined || releasedAt === undefined ? [] : [{ acquire, granted, releasedAt, queuedAt }],
    )
    .toSorted((a, b) => a.granted.fence - b.granted.fence)
}

function pick<Value>(values: readonly Value[], random: () => number): Value | undefined {
  return values[Math.floor(random() * values.length)]
}

function replaced(events: readonly HistoryEvent[], changes: ReadonlyMap<HistoryEvent, HistoryEvent>): HistoryEvent[] {
  return sorted(events.map((event) => changes.get(event) ?? event))
}

function sorted(events: readonly HistoryEvent[]): HistoryEvent[] {
  return events.toSorted((a, b) => a.at - b.at)
}

/** A claim that was never there, held from `at` for two milliseconds. */
function intruder(story: Story, at: number, fence: number, holdMs = 2): HistoryEvent[] {
  const { type, key, mode, limit, range } = story.acquire
  const wanted = { key, mode, ...(limit !== undefined && { limit }), ...(range !== undefined && { range }) }
  return [
    { at: at - 0.01, type, client: 'intruder', attempt: `intruder-${at}`, ...wanted },
    { at, type: 'granted', attempt: `intruder-${at}`, fence, deadline: at + holdMs },
    { at: at + holdMs + 1, type: 'release', attempt: `intruder-${at}` },
  ]
}

/** Leaves room between fences, so that one more can be put between two. */
function jitter(events: readonly HistoryEvent[]): HistoryEvent[] {
  return events.map((event) => (event.type === 'granted' ? { ...event, fence: event.fence * 10 } : event))
}

/** The middle of a hold that lasted a while. */
function middleOf(story: Story): number {
  return (story.granted.at + Math.min(story.releasedAt, story.granted.deadline ?? Infinity)) / 2
}

const lasting = (story: Story) => story.releasedAt - story.granted.at > 1 && middleOf(story) > story.granted.at

function secondHolder(trade: string): Planting {
  return {
    trade,
    kind: 'overlap',
    plant(events, random) {
      const room = jitter(events)
      const story = pick(
        storiesOf(room).filter((candidate) => lasting(candidate) && candidate.acquire.mode === 'exclusive'),
        random,
      )
      return story && sorted([...room, ...intruder(story, middleOf(story), story.granted.fence + 5)])
    },
  }
}

export const plantings: Readonly<Record<string, Planting>> = {
  'a second holder of a mutex': secondHolder('mutex'),
  'a second writer': secondHolder('readers and writers'),
  'a second holder of a range': secondHolder('ranges'),
  'a reader beside a writer': {
    trade: 'readers and writers',
    kind: 'overlap',
    plant(events, random) {
      const room = jitter(events)
      const story = pick(
        storiesOf(room).filter((candidate) => lasting(candidate) && candidate.acquire.mode === 'exclusive'),
        random,
      )
      if (story === undefined) return undefined
      const reader: Story = { ...story, acquire: { ...story.acquire, mode: 'shared' } }
      return sorted([...room, ...intruder(reader, middleOf(story), story.granted.fence + 5)])
    },
  },
  'one permit too many': {
    trade: 'semaphore',
    kind: 'overlap',
    plant(events, random) {
      const room = jitter(events)
      const story = pick(storiesOf(room).filter(lasting), random)
      if (story === undefined) return undefined
      const at = middleOf(story)
      const { fence } = story.granted
      return sorted([...room, ...[1, 2, 3].flatMap((turn) => intruder(story, at + turn / 100, fence + turn, 5))])
    },
  },
  'a fence given twice': {
    trade: 'mutex',
    kind: 'fence-repeated',
    plant(events, random) {
      const [first, second] = [pick(storiesOf(events), random), pick(storiesOf(events), random)]
      if (first === undefined || second === undefined || first.granted === second.granted) return undefined
      return replaced(events, new Map([[second.granted, { ...second.granted, fence: first.granted.fence }]]))
    },
  },
  'a fence given twice to those who share': {
    trade: 'semaphore',
    kind: 'fence-repeated',
    plant(events, random) {
      const stories = storiesOf(events)
      const at = Math.floor(random() * (stories.length - 1))
      const [first, second] = [stories[at], stories[at + 1]]
      if (first === undefined || second === undefined) return undefined
      return replaced(events, new Map([[second.granted, { ...second.granted, fence: first.granted.fence }]]))
    },
  },
  'fences that fall': {
    trade: 'mutex',
    kind: 'fence-order',
    plant(events, random) {
      const stories = storiesOf(events)
      const first = pick(stories, random)
      const second = pick(
        stories.filter(({ acquire }) => first !== undefined && acquire.at > first.granted.at),
        random,
      )
      if (first === undefined || second === undefined) return undefined
      return replaced(
        events,
        new Map([
          [first.granted, { ...first.granted, fence: second.granted.fence }],
          [second.granted, { ...second.granted, fence: first.granted.fence }],
        ]),
      )
    },
  },
  'holds in another order than their fences': {
    trade: 'mutex',
    kind: 'fence-order',
    plant(events, random) {
      const stories = storiesOf(events).filter(lasting)
      const at = Math.floor(random() * (stories.length - 1))
      const [first, second] = [stories[at], stories[at + 1]]
      if (first === undefined || second === undefined || first.granted.fence + 1 !== second.granted.fence)
        return undefined
      return replaced(
        events,
        new Map([
          [first.granted, { ...first.granted, fence: second.granted.fence }],
          [second.granted, { ...second.granted, fence: first.granted.fence }],
        ]),
      )
    },
  },
  'a fence that nobody got': {
    trade: 'mutex',
    kind: 'fence-gap',
    plant(events, random) {
      const stories = storiesOf(events)
      const unfinishedFrom = firstUnfinished(events)
      // If an acquire is unfinished, the gap may be its fence.
      const gapsAt = stories.slice(1, -1).filter((_, index) => (stories[index + 2]?.granted.at ?? 0) < unfinishedFrom)
      const story = pick(gapsAt, random)
      if (story === undefined) return undefined
      return events.filter((event) => !('attempt' in event) || event.attempt !== story.acquire.attempt)
    },
  },
  'one who barged in': {
    trade: 'mutex',
    kind: 'unfair',
    plant(events, random) {
      const room = jitter(events)
      const queued = storiesOf(room).filter(
        ({ queuedAt, granted }) => queuedAt !== undefined && granted.at - queuedAt > 1,
      )
      const story = pick(queued, random)
      if (story?.queuedAt === undefined) return undefined
      const at = (story.queuedAt + story.granted.at) / 2
      // Too short a hold to be certain: only the turn is wrong.
      return sorted([...room, ...intruder(story, at, story.granted.fence - 5, -1)])
    },
  },
}

/** When the first acquire was called that was not granted within the history. */
function firstUnfinished(events: readonly HistoryEvent[]): number {
  const granted = new Set(events.flatMap((event) => (event.type === 'granted' ? [event.attempt] : [])))
  const unfinished = events.find((event) => event.type === 'acquire' && !granted.has(event.attempt))
  return unfinished?.at ?? Infinity
}
