import type { TourOptions } from '../../test/unit/client/tour.ts'

/** Options of a tour by its seed: stores and numbers of clients vary. */
export function clientTour(seed: number): TourOptions {
  const stores: TourOptions[] = [
    { seed, weather: 'storm' },
    { seed, weather: 'storm', about: 'reads' },
    { seed, weather: 'storm', about: 'hand-offs' },
    { seed, weather: 'storm', about: 'web locks' },
    { seed, weather: 'storm', about: 'permits' },
    { seed, weather: 'storm', threads: true },
    { seed, weather: 'gale', about: 'renewals', threads: true },
    { seed, weather: 'gale', about: 'renewals' },
    { seed, weather: 'gale', about: 'hand-offs', threads: true },
    { seed, weather: 'storm', store: 'silent' },
    { seed, weather: 'storm', store: 'without queue' },
    { seed, weather: 'storm', store: 'documents' },
    { seed, weather: 'calm', store: 'documents', processes: 6, workers: 1 },
    { seed, weather: 'calm', processes: 6, workers: 1 },
  ]
  const contention = seed % 3 === 0 ? { processes: 5, workers: 4 } : {}
  return { ...contention, seed, weather: 'storm', ...stores[seed % stores.length] }
}
