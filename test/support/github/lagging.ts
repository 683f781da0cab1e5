/** Values that readers may see as they were a while ago, as behind replicas that lag. */
export class Lagging<Value> {
  readonly #versions = new Map<number, { readonly at: number; readonly value: Value | undefined }[]>()
  readonly #now: () => number
  readonly #lagMs: () => number

  constructor(now: () => number, lagMs: () => number) {
    this.#now = now
    this.#lagMs = lagMs
  }

  /** The current value. */
  get(id: number): Value | undefined {
    return this.#versions.get(id)?.at(-1)?.value
  }

  /** Sets a value; undefined deletes it. */
  set(id: number, value: Value | undefined): void {
    const versions = this.#versions.get(id) ?? []
    versions.push({ at: this.#now(), value })
    this.#versions.set(id, versions)
  }

  /** The values that were created as `wanted`, as some replica shows them: each may be stale by its own amount. */
  seen(wanted: (made: Value) => boolean = () => true): Value[] {
    const values: Value[] = []
    for (const versions of this.#versions.values()) {
      const made = versions[0]?.value
      if (made === undefined || !wanted(made)) continue
      const upTo = this.#now() - this.#lagMs()
      const value = versions.findLast(({ at }) => at <= upTo)?.value
      if (value !== undefined) values.push(value)
    }
    return values
  }

  clear(): void {
    this.#versions.clear()
  }
}
