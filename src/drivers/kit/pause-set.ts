/** Pauses before another try, which the end of a driver cuts short. */
export class PauseSet {
  readonly #underWay = new Set<() => void>()

  wait(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        this.#underWay.delete(end)
        resolve()
      }
      const timer = setTimeout(end, milliseconds)
      this.#underWay.add(end)
    })
  }

  /** Ends all that are under way. Whoever paused finds out why. */
  endAll(): void {
    for (const end of this.#underWay) end()
  }
}
