import { LeaseholdError, plainMessageOf } from '../errors.ts'
import { claimAgain, renewNow } from './renewal.ts'
import { clearAway, lose, releaseAgain, releaseUnanswered, whyOver } from './ending.ts'
import { copyOf, nothing, type Effect, type ClaimState, type Stepped } from './state.ts'

/** Time has passed. */
export function ticked(state: ClaimState, at: number): Stepped {
  switch (state.phase) {
    case 'asking': {
      if (at < state.deadline) return at >= state.nextAt && !state.inFlight ? askOnceMore(state, at) : [state, nothing]
      const error = new LeaseholdError(
        'UNAVAILABLE',
        `The store has not answered for ${Math.round(at - state.sentAt)} ms.`,
        {
          reason: 'no-answer',
        },
      )
      return clearAway(state, at, { type: 'failed', error })
    }
    case 'waiting':
      // Our place in the queue may be gone: clear it away and let the caller queue anew.
      if (at >= state.deadline) {
        return clearAway(state, at, { type: 'refused', status: { state: 'absent', reason: 'expired' } })
      }
      return at >= state.nextAt && !state.inFlight ? renewNow(state, at) : [state, nothing]
    case 'held':
      return tickedWhileHeld(state, at)
    case 'releasing':
      if (state.inFlight) return at >= state.deadline ? releaseUnanswered(state, at) : [state, nothing]
      return at >= state.nextAt ? releaseAgain(state) : [state, nothing]
    case 'lost':
    case 'over':
      return [state, nothing]
  }
}

/** What became of the claim is not known: it is sent again, or taken back. */
function askOnceMore(state: ClaimState, at: number): Stepped {
  return state.withdrawn ? renewNow(state, at) : claimAgain(state)
}

function tickedWhileHeld(state: ClaimState, at: number): Stepped {
  if (at >= state.deadline) {
    const detail = state.lastError === undefined ? undefined : plainMessageOf(state.lastError)
    return lose(state, whyOver(state), detail)
  }
  if (at < state.dangerAt) return at < state.nextAt || state.inFlight ? [state, nothing] : renewNow(state, at)
  const reason = whyEnding(state)
  const jeopardy: Effect = { type: 'jeopardy', reason, leftMs: Math.floor(state.deadline - at) }
  const warned = copyOf(state)
  warned.dangerAt = Infinity
  if (at < state.nextAt || state.inFlight) return [warned, [jeopardy]]
  const [renewing, effects] = renewNow(warned, at)
  return [renewing, [jeopardy, ...effects]]
}

/** Why a lease nears its end. One that is held for as long as it may be is renewed, and not extended. */
function whyEnding(state: ClaimState): string {
  if (state.lastError !== undefined && state.leaving === undefined) return plainMessageOf(state.lastError)
  const why = whyOver(state)
  return why === 'expired' ? 'not renewed' : why
}
