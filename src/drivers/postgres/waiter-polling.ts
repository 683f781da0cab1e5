/** How often to look whom to nudge, while news does not arrive by itself. */
const lookEveryMs = 20
/** A claim is told to ask after this long at first, and the longer it has waited the more seldom. */
const nudgeMinMs = 20
const nudgeMaxMs = 800

interface Waiting {
  readonly key: string
  readonly since: number
  nudgeAt: number
}

/** Our own claims that wait. While nobody can call them, they are told to ask, with a growing pause. */
export class WaiterPolling {
  readonly #claims = new Map<string, Waiting>()
  readonly #isDeaf: () => boolean
  readonly #ask: (key: string, id: string) => void
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(isDeaf: () => boolean, ask: (key: string, id: string) => void) {
    this.#isDeaf = isDeaf
    this.#ask = ask
  }

  get isEmpty(): boolean {
    return this.#claims.size === 0
  }

  add(key: string, id: string): void {
    if (this.#closed || this.#claims.has(id)) return
    const now = performance.now()
    this.#claims.set(id, { key, since: now, nudgeAt: now + nudgeMinMs })
    // Unreferenced: whoever waits keeps the process alive by other means.
    this.#timer ??= setInterval(() => this.#look(), lookEveryMs).unref()
  }

  delete(id: string): void {
    if (!this.#claims.delete(id) || this.#claims.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Tells every claim to ask: news may have been missed. */
  askAll(): void {
    for (const [id, { key }] of this.#claims) this.#ask(key, id)
  }

  close(): void {
    this.#closed = true
    this.#claims.clear()
    clearInterval(this.#timer)
  }

  #look(): void {
    if (!this.#isDeaf()) return
    const now = performance.now()
    for (const [id, waiting] of this.#claims) {
      if (now < waiting.nudgeAt) continue
      // Chance keeps those who came together from asking together for ever.
      const pauseMs = Math.min(nudgeMaxMs, Math.max(nudgeMinMs, (now - waiting.since) / 2))
      waiting.nudgeAt = now + pauseMs * (0.75 + Math.random() / 2)
      this.#ask(waiting.key, id)
    }
  }
}
