/** Opens one thing at a time: whoever asks meanwhile shares the attempt under way, and whoever asks later makes another. */
export class SingleFlight<Opened> {
  readonly #open: () => Promise<Opened>
  #underWay: Promise<Opened> | undefined

  constructor(open: () => Promise<Opened>) {
    this.#open = open
  }

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
