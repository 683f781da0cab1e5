import type { Notification, OnGap, OnNotification } from '../../core/contract/driver.ts'

interface Listener {
  readonly onNotification: OnNotification
  readonly onGap: OnGap | undefined
}

/** Whoever listens to one driver. Notifications are passed on as they came: each listener checks them, as it checks answers. */
export class Listeners {
  readonly #listeners = new Set<Listener>()

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    const listener: Listener = { onNotification, onGap }
    this.#listeners.add(listener)
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) }
  }

  notify(key: string, id: string, notification: Notification): void {
    for (const { onNotification } of this.#listeners) onNotification(key, id, notification)
  }

  /** Notifications of any claim of this driver may have been lost. */
  gap(): void {
    for (const { onGap } of this.#listeners) onGap?.()
  }

  clear(): void {
    this.#listeners.clear()
  }
}
