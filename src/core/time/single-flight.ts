/** Runs one attempt to open at a time: calls meanwhile share the attempt under way, a later call starts another. */
export class SingleFlight<Opened> {
  readonly #open: () => Promise<Opened>
  #underWay: Promise<Opened> | undefined

  constructor(open: () => Promise<Opened>) {
    this.#open = open
  }

  /** The outcome of the attempt under way, or of a new one. */
  opened(): Promise<Opened> {
    this.#underWay ??= this.#open().finally(() => {
      this.#underWay = undefined
    })
    return this.#underWay
  }

  /** Resolves when no attempt is under way, however the last one ended. */
  async settled(): Promise<void> {
    await this.#underWay?.catch(() => {})
  }
}
