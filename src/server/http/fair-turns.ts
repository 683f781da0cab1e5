/** What a caller may have begun in one turn of the event loop, in units of about a byte of JSON; one call in any case. @internal */
export const unitsPerTurn = 131_072
/** What a call costs beside its body. */
const unitsPerCall = 1024

interface Waiting {
  readonly units: number
  readonly begin: () => void
}

interface CallerTurn {
  units: number
  readonly waiting: Waiting[]
}

/**
 * Lets callers take turns: in one turn of the event loop each begins a bounded amount of work, and waits for the next with the rest.
 * A caller with one small call thus waits for one turn, however many calls another has sent. Small calls of one turn still become one
 * batch of the store. @internal
 */
export class FairTurns {
  readonly #callers = new Map<string, CallerTurn>()
  #isArmed = false

  /** Resolves when a call with a body of so many bytes may be carried out; undefined: at once. */
  enter(caller: string, bodyBytes: number): Promise<void> | undefined {
    const units = unitsPerCall + bodyBytes
    let turn = this.#callers.get(caller)
    if (turn === undefined) this.#callers.set(caller, (turn = { units: 0, waiting: [] }))
    this.#arm()
    const { waiting } = turn
    if (waiting.length === 0 && (turn.units === 0 || turn.units + units <= unitsPerTurn)) {
      turn.units += units
      return undefined
    }
    return new Promise((begin) => waiting.push({ units, begin }))
  }

  #arm(): void {
    if (this.#isArmed) return
    this.#isArmed = true
    setImmediate(() => this.#nextTurn())
  }

  #nextTurn(): void {
    this.#isArmed = false
    for (const [caller, turn] of this.#callers) {
      turn.units = 0
      if (turn.waiting.length === 0) this.#callers.delete(caller)
      else beginSome(turn)
    }
    if (this.#callers.size > 0) this.#arm()
  }
}

function beginSome(turn: CallerTurn): void {
  let begun = 0
  for (const { units, begin } of turn.waiting) {
    if (turn.units > 0 && turn.units + units > unitsPerTurn) break
    turn.units += units
    begun += 1
    begin()
  }
  turn.waiting.splice(0, begun)
}
