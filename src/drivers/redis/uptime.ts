import { monotonicMs } from '../../core/time/environment.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { Link, Shelf } from './link.ts'

/** For how long the servers behind a link have been up; the one that started last counts. */
export class Uptime {
  #known: { readonly interruptions: number; readonly upSince: number } | undefined

  /** A restart breaks the connection, so one question for each connection is enough. */
  async read(link: Link): Promise<number> {
    const { interruptions } = link
    if (interruptions !== undefined && this.#known?.interruptions === interruptions) {
      return monotonicMs() - this.#known.upSince
    }
    const uptimes = await Promise.all((await link.shelves()).map(uptimeOf))
    const uptimeMs = Math.min(...uptimes)
    if (interruptions !== undefined) this.#known = { interruptions, upSince: monotonicMs() - uptimeMs }
    return uptimeMs
  }
}

async function uptimeOf(shelf: Shelf): Promise<number> {
  const [, seconds] = /^uptime_in_seconds:(\d+)/m.exec(String(await shelf.call('INFO', ['server']))) ?? []
  if (seconds !== undefined) return Number(seconds) * 1000
  throw new LeaseholdError('UNAVAILABLE', 'Redis did not tell its uptime.', { reason: 'configuration' })
}
