import { LeaseholdError } from '../../core/errors.ts'
import { SingleFlight } from '../../core/time/single-flight.ts'

/**
 * Opens once, shares the attempt under way, and refuses when closed: one for each driver, or for each connection of a driver.
 *
 * The order of closing is the driver's own: `const opened = lifecycle.shut()`, close what is being dialled, `await
 * lifecycle.settled()`, close `opened`.
 */
export class Lifecycle<Opened> {
  readonly #subject: string | (() => string)
  readonly #discard: ((opened: Opened) => Promise<void> | void) | undefined
  readonly #flight: SingleFlight<Opened>
  #current: Opened | undefined
  #isShut = false

  /**
   * @param subject begins the message of CLOSED: `This Redis store`; a function where it changes.
   * @param open one attempt. Its failure is thrown to all who share it, and the next caller makes another attempt.
   * @param discard closes what was opened while `shut` was being called.
   */
  constructor(
    subject: string | (() => string),
    open: () => Promise<Opened>,
    discard?: (opened: Opened) => Promise<void> | void,
  ) {
    this.#subject = subject
    this.#discard = discard
    this.#flight = new SingleFlight(() => this.#open(open))
  }

  /** What is open now; undefined: nothing yet, forgotten, or shut. Hot paths read this first, as it needs no promise. */
  get current(): Opened | undefined {
    return this.#current
  }

  get isShut(): boolean {
    return this.#isShut
  }

  /** Throws CLOSED once `shut` has been called. A caller that has awaited something since asks again. */
  refuseIfShut(): void {
    if (this.#isShut) throw this.closedError()
  }

  closedError(): LeaseholdError {
    const subject = typeof this.#subject === 'string' ? this.#subject : this.#subject()
    return new LeaseholdError('CLOSED', `${subject} has been closed.`)
  }

  /** What is open, or the attempt under way, or a new one. Rejects with CLOSED if shut, before or meanwhile. */
  async opened(): Promise<Opened> {
    this.refuseIfShut()
    return this.#current ?? (await this.#flight.opened())
  }

  /** Forgets `opened` if that is what is open, so that the next caller opens anew. Closes nothing. */
  forget(opened: Opened): void {
    if (this.#current === opened) this.#current = undefined
  }

  /** Refuses from now on. Gives what was open, for the caller to close; undefined if nothing was, or when called again. */
  shut(): Opened | undefined {
    this.#isShut = true
    const opened = this.#current
    this.#current = undefined
    return opened
  }

  /** Resolves when no attempt is under way, however it ended. Not to be awaited from inside an attempt. */
  settled(): Promise<void> {
    return this.#flight.settled()
  }

  async #open(open: () => Promise<Opened>): Promise<Opened> {
    let opened: Opened
    try {
      opened = await open()
    } catch (error) {
      // Whatever went wrong did so because of the closing, or no longer matters.
      this.refuseIfShut()
      throw error
    }
    if (this.#isShut) {
      await this.#discard?.(opened)
      throw this.closedError()
    }
    this.#current = opened
    return opened
  }
}
