import type { Locks } from '../api/locks.ts'
import type { EventName, LockEventListener } from '../api/client/events.ts'

/** A set of event listeners that are removed together. @internal */
export class EventSubscriptions implements Disposable {
  readonly #locks: Locks
  readonly #each: Disposable[] = []

  constructor(locks: Locks) {
    this.#locks = locks
  }

  on<Name extends EventName>(name: Name, listener: LockEventListener<Name>): this {
    this.#each.push(this.#locks.on(name, listener))
    return this
  }

  [Symbol.dispose](): void {
    for (const each of this.#each.splice(0)) each[Symbol.dispose]()
  }
}
