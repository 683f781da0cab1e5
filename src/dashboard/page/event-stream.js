/**
 * Parses server-sent events. The browser's own EventSource cannot send a token.
 * @module
 */

/** @typedef {{ readonly event: string, readonly data: unknown }} StreamEvent */

/** Collects text as it arrives, in pieces of any length, and returns the events that are complete. */
export class EventStream {
  #rest = ''

  /**
   * @param {string} piece
   * @returns {StreamEvent[]}
   */
  push(piece) {
    const blocks = (this.#rest + piece).split(/\r?\n\r?\n/)
    this.#rest = blocks.pop() ?? ''
    return blocks.flatMap((block) => eventOf(block))
  }
}

/**
 * @param {string} block
 * @returns {StreamEvent[]}
 */
function eventOf(block) {
  let event = 'message'
  const data = []
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^([a-z]+): ?(.*)$/.exec(line) ?? []
    if (field === 'event') event = value ?? ''
    else if (field === 'data') data.push(value)
  }
  // A block without data is a comment, which only keeps the connection alive.
  if (data.length === 0) return []
  try {
    return [{ event, data: JSON.parse(data.join('\n')) }]
  } catch {
    return []
  }
}
