import { describe, expect, test, vi } from 'vitest'
import type * as observations from '../../src/drivers/document/observed/observations.ts'
import type * as observedSend from '../../src/drivers/document/observed/observed-send.ts'
import type * as storedKey from '../../src/drivers/document/observed/stored-key.ts'
import type * as trustedLeases from '../../src/drivers/document/observed/trusted-leases.ts'
import { seedsFrom } from '../support/seeds.ts'
import { playSchedule } from './clockless/schedule.ts'
import { withoutStacks } from './support/short-errors.ts'

withoutStacks()

const minutes = { timeout: 180_000 }

test('leases without a store clock never overlap, whatever clocks, messages and processes do', minutes, async () => {
  let holds = 0
  let toldOf = 0
  for (let seed = 1; seed <= 60; seed += 1) {
    const { overlaps, fences, holds: seen, told } = await playSchedule(seed, { sharing: 0.6 })
    holds += seen
    toldOf += told
    expect({ seed, overlaps, fences }).toEqual({ seed, overlaps: [], fences: [] })
  }
  expect(holds, 'schedules without holds show nothing').toBeGreaterThan(300)
  expect(toldOf, 'holds that began with a notification').toBeGreaterThan(30)
})

type StoredKey = typeof storedKey
type Observations = typeof observations
type ObservedSend = typeof observedSend
type TrustedLeases = typeof trustedLeases

/** Each makes one module of the driver wrong. */
const mutants: Readonly<Record<string, Mutant>> = {
  'adds no margin for an observer whose clock is fast': planted<StoredKey>(352, 'stored-key', ({ withEnds }) => ({
    withEnds: (document, observer) => withEnds(document, { ...observer, isExact: true }),
  })),
  'believes the wall clocks in a document': planted<StoredKey>(4, 'stored-key', ({ withEnds }) => ({
    withEnds: (document, observer) => {
      const wall = 1_700_000_000_000 + observer.now
      const writtenAt = new Map(document.claims.map(({ claim, lastHeartbeat }) => [claim.id, lastHeartbeat]))
      const firstSeenAt = ({ id }: { id: string }): number => observer.now - (wall - (writtenAt.get(id) ?? wall))
      return withEnds(document, { ...observer, firstSeenAt })
    },
  })),
  'takes a renewal for the lease that it had seen': planted<StoredKey>(2, 'stored-key', ({ withoutEnds }) => ({
    withoutEnds: (decided, read, writer) => {
      const { document, renewed } = withoutEnds(decided, read, writer)
      const before = new Map((read.stored?.claims ?? []).map(({ claim, beat }) => [claim.id, beat]))
      const claims = document.claims.map((lease) => ({ ...lease, beat: before.get(lease.claim.id) ?? lease.beat }))
      return { document: { ...document, claims }, renewed }
    },
  })),
  'counts a beat from when it was asked for': planted<Observations>(234, 'observations', ({ Observations: Real }) => ({
    Observations: class extends Real {
      override see(...[key, beats, at, reading]: Parameters<InstanceType<typeof Real>['see']>): void {
        super.see(key, beats, at - 60, reading)
      }
    },
  })),
  'gives a claim that is sent again a whole ttl': planted<ObservedSend>(
    43,
    'observed-send',
    ({ ObservedSend: Real }) => ({
      ObservedSend: class extends Real<unknown> {
        override bounded(...[, status]: Parameters<InstanceType<typeof Real>['bounded']>): typeof status {
          return status
        }
      } as unknown as typeof Real,
    }),
  ),
  'trusts the lease that it sent, whoever wrote the stored one': planted<TrustedLeases>(
    79,
    'trusted-leases',
    ({ TrustedLeases: Real }) => ({
      TrustedLeases: class extends Real {
        readonly #sent = new Map<string, string>()
        override sending(...[claim, sent]: Parameters<InstanceType<typeof Real>['sending']>): void {
          super.sending(claim, sent)
          this.#sent.set(claim.id, sent.beat)
        }
        override leftMs(...[claim, beat, at]: Parameters<InstanceType<typeof Real>['leftMs']>): number {
          return super.leftMs(claim, this.#sent.get(claim.id) ?? beat, at)
        }
      },
    }),
  ),
}

interface Mutant {
  /** A seed that finds it: the search begins there. */
  readonly seed: number
  readonly file: string
  readonly replace: (real: object) => object
}

function planted<Real extends object>(seed: number, module: string, replace: (real: Real) => Partial<Real>): Mutant {
  return {
    seed,
    file: `../../src/drivers/document/observed/${module}.ts`,
    replace: (real) => replace(real as Real),
  }
}

describe('the same schedules find a driver that', () => {
  test.each(Object.entries(mutants))('%s', minutes, async (_name, mutant) => {
    expect(await seedThatFails(await withMutant(mutant), mutant.seed)).toBeDefined()
  })
})

async function seedThatFails(play: typeof playSchedule, first: number): Promise<number | undefined> {
  for (const seed of seedsFrom(first, 1000)) {
    const { overlaps, fences } = await play(seed, { failingOver: seed % 2, farOff: 1, sharing: 0 })
    if (overlaps.length + fences.length > 0) return seed
  }
  return undefined
}

async function withMutant({ file, replace }: Mutant): Promise<typeof playSchedule> {
  const real = await vi.importActual<object>(file)
  vi.resetModules()
  vi.doMock(file, () => ({ ...real, ...replace(real) }))
  const { playSchedule: play } = await import('./clockless/schedule.ts')
  vi.doUnmock(file)
  vi.resetModules()
  return play
}
