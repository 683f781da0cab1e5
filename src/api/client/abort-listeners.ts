const actionsOf = new WeakMap<AbortSignal, { readonly actions: Set<() => void>; readonly listener: () => void }>()

/**
 * Calls `action` when `signal` aborts. However many listen to one signal, it has one listener from here: of more than ten
 * Node warns as of a leak, and to remove one of many takes as long as there are many.
 */
export function listenForAbort(signal: AbortSignal, action: () => void): void {
  const known = actionsOf.get(signal)
  if (known !== undefined) return void known.actions.add(action)
  const actions = new Set([action])
  // A copy: whoever is told may stop listening, or begin to.
  const listener = (): void => [...actions].forEach((each) => each())
  actionsOf.set(signal, { actions, listener })
  signal.addEventListener('abort', listener)
}

export function stopListeningForAbort(signal: AbortSignal, action: () => void): void {
  const known = actionsOf.get(signal)
  if (known?.actions.delete(action) !== true || known.actions.size > 0) return
  actionsOf.delete(signal)
  signal.removeEventListener('abort', known.listener)
}
