import type { OnNotification, Notification } from '../../core/contract/driver.ts'

/** Those who hear a driver's news. */
export class Listeners {
  readonly #onNotification = new Set<OnNotification>()

  /** Hears whatever is told from now on, until disposed of. */
  listen(onNotification: OnNotification): Disposable {
    this.#onNotification.add(onNotification)
    return { [Symbol.dispose]: () => void this.#onNotification.delete(onNotification) }
  }

  notify(key: string, id: string, notification: Notification): void {
    for (const onNotification of this.#onNotification) onNotification(key, id, notification)
  }

  clear(): void {
    this.#onNotification.clear()
  }
}
