/**
 * Lets callbacks begin in the order in which their locks were requested. What one turn of the event loop requests is
 * answered together, but sorted by key: those who got an answer are gathered, and go on by their number.
 */
export class Turnstile {
  #answered: { readonly number: number; readonly go: () => void }[] = []
  #numbers = 0

  /** A number for a request, and what resolves when those answered with it and made before it have gone on. */
  enter(): () => Promise<void> {
    this.#numbers += 1
    const number = this.#numbers
    return () =>
      new Promise((go) => {
        if (this.#answered.length === 0) queueMicrotask(() => this.#open())
        this.#answered.push({ number, go })
      })
  }

  #open(): void {
    const answered = this.#answered.toSorted((one, other) => one.number - other.number)
    this.#answered = []
    for (const { go } of answered) go()
  }
}
