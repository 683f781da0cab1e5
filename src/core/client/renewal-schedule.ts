/** When the claims of one client are renewed: together, whenever they were taken, and in pieces if they are very many. */

/** The renewal times of a claim: `originMs`, and then once a heartbeat. Shared by all claims that are renewed together. */
export interface RenewalSchedule {
  readonly originMs: number
  /** How far into the first third of a heartbeat the claim is renewed: from 0 up to, not including, 1. */
  readonly shift: number
}

/** A renewal is sent no sooner than this share of a heartbeat after the one before: two thirds, less what a timer is late. */
const soonest = 0.6
/** The client's claims up to this number are renewed at one moment; more are renewed in pieces of about this size. */
const claimsPerPiece = 400
/** The most pieces of one heartbeat. Coprime to {@link stride}. */
const piecesMax = 128
/** Piece after piece goes into the widest gap: 79 / 128 is nearly the golden ratio. */
const stride = 79
/** The origins of clients differ by up to about a minute, so that they do not all renew at the same moments. */
const originsMs = 65_536

/** The renewal schedules of one client. */
export class RenewalSchedules {
  readonly #random: () => number
  readonly #originMs: number
  readonly #pieces: RenewalSchedule[] = []

  constructor(random: () => number) {
    this.#random = random
    this.#originMs = Math.floor(random() * originsMs)
  }

  /** A schedule for one more claim. `claims`: how many the client has already. */
  choose(claims: number): RenewalSchedule {
    const pieces = Math.min(piecesMax, 1 + Math.floor(claims / claimsPerPiece))
    const piece = pieces === 1 ? 0 : Math.floor(this.#random() * pieces)
    this.#pieces[piece] ??= { originMs: this.#originMs, shift: ((piece * stride) % piecesMax) / piecesMax }
    return this.#pieces[piece]
  }
}

/**
 * When to renew a claim whose last request was sent at `sentAt`: at the time of its schedule in the last 0.4 of the
 * heartbeat. If there is none, at the first third of the schedule after 0.6 of the heartbeat: two renewals later the
 * claim is on its schedule. Without a schedule, a whole heartbeat after `sentAt`.
 */
export function nextRenewalAt(
  everyMs: number,
  schedule: RenewalSchedule | undefined,
  sentAt: number,
  at: number,
): number {
  if (schedule === undefined) return Math.max(at, Math.floor(sentAt + everyMs))
  const periodMs = Math.max(1, Math.floor(everyMs))
  const thirdMs = periodMs / 3
  const originMs = schedule.originMs + Math.floor(schedule.shift * thirdMs)
  const earliest = sentAt + periodMs * soonest
  const scheduled = originMs + Math.floor((sentAt + periodMs - originMs) / periodMs) * periodMs
  if (scheduled >= earliest) return Math.max(at, scheduled)
  return Math.max(at, Math.floor(originMs + Math.ceil((earliest - originMs) / thirdMs) * thirdMs))
}
