const actionsOf = new WeakMap<AbortSignal, { readonly actions: Set<() => void>; readonly listener: () => void }>()

/**
 * Calls `action` when `signal` aborts. All actions of a signal share one listener: above ten listeners Node warns of a leak,
 * and removing one of many takes linear time.
 */
export function listenForAbort(signal: AbortSignal, action: () => void): void {
  const known = actionsOf.get(signal)
  if (known !== undefined) return void known.actions.add(action)
  const actions = new Set([action])
  // A copy: an action may add and remove actions.
  const listener = (): void => [...actions].forEach((call) => call())
  actionsOf.set(signal, { actions, listener })
  signal.addEventListener('abort', listener)
}

/** Undoes {@link listenForAbort}. */
export function stopListeningForAbort(signal: AbortSignal, action: () => void): void {
  const known = actionsOf.get(signal)
  if (known?.actions.delete(action) !== true || known.actions.size > 0) return
  actionsOf.delete(signal)
  signal.removeEventListener('abort', known.listener)
}
