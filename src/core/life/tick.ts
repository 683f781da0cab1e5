import { LeaseholdError, plainMessageOf } from '../errors.ts'
import { claimAgain, renewNow } from './beat.ts'
import { clearAway, lose, releaseAgain, releaseUnanswered, whyOver } from './ending.ts'
import { copyOf, nothing, type Effect, type Life, type Stepped } from './state.ts'

/** Time has passed. */
export function ticked(life: Life, at: number): Stepped {
  switch (life.phase) {
    case 'asking': {
      if (at < life.deadline) return at >= life.nextAt && !life.inFlight ? askOnceMore(life, at) : [life, nothing]
      const error = new LeaseholdError(
        'UNAVAILABLE',
        `The store has not answered for ${Math.round(at - life.sentAt)} ms.`,
        {
          reason: 'no-answer',
        },
      )
      return clearAway(life, at, { type: 'failed', error })
    }
    case 'waiting':
      // Our place in the queue may be gone: clear it away and let the caller queue anew.
      if (at >= life.deadline) {
        return clearAway(life, at, { type: 'refused', status: { state: 'absent', reason: 'expired' } })
      }
      return at >= life.nextAt && !life.inFlight ? renewNow(life, at) : [life, nothing]
    case 'held':
      return tickedWhileHeld(life, at)
    case 'releasing':
      if (life.inFlight) return at >= life.deadline ? releaseUnanswered(life, at) : [life, nothing]
      return at >= life.nextAt ? releaseAgain(life) : [life, nothing]
    case 'lost':
    case 'over':
      return [life, nothing]
  }
}

/** What became of the claim is not known: it is sent again, or taken back. */
function askOnceMore(life: Life, at: number): Stepped {
  return life.withdrawn ? renewNow(life, at) : claimAgain(life)
}

function tickedWhileHeld(life: Life, at: number): Stepped {
  if (at >= life.deadline) {
    const detail = life.lastError === undefined ? undefined : plainMessageOf(life.lastError)
    return lose(life, whyOver(life), detail)
  }
  if (at < life.dangerAt) return at < life.nextAt || life.inFlight ? [life, nothing] : renewNow(life, at)
  const reason = whyEnding(life)
  const jeopardy: Effect = { type: 'jeopardy', reason, leftMs: Math.floor(life.deadline - at) }
  const warned = copyOf(life)
  warned.dangerAt = Infinity
  if (at < life.nextAt || life.inFlight) return [warned, [jeopardy]]
  const [renewing, effects] = renewNow(warned, at)
  return [renewing, [jeopardy, ...effects]]
}

/** Why a lease nears its end. One that is held for as long as it may be is renewed, and not extended. */
function whyEnding(life: Life): string {
  if (life.lastError !== undefined && life.leaving === undefined) return plainMessageOf(life.lastError)
  const why = whyOver(life)
  return why === 'expired' ? 'not renewed' : why
}
