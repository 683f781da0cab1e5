/**
 * Calls of the server that the page came from.
 * @module
 */
import { EventStream } from './event-stream.js'

const tokenName = 'leasehold-token'
const answerWithinMs = 15_000
/** The server sends something every 15 s, if only a comment. */
const silenceMaxMs = 45_000
const firstPauseMs = 500
const lastPauseMs = 10_000

const signedOut = 'You are signed out. Reload the page to sign in.'

/** The server refused a call. `status` is 0 if it did not answer at all. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

/** The token, for as long as this tab lives. */
export const keptToken = {
  get: () => sessionStorage.getItem(tokenName) ?? undefined,
  /** @param {string} token */
  set: (token) => sessionStorage.setItem(tokenName, token),
  forget: () => sessionStorage.removeItem(tokenName),
}

/**
 * Calls the server, which answers JSON. With a body the call is a POST.
 * @param {string} path
 * @param {{ query?: Readonly<Record<string, string>>, body?: object }} [options]
 * @returns {Promise<unknown>}
 */
export async function ask(path, { query = {}, body } = {}) {
  const signal = AbortSignal.timeout(answerWithinMs)
  const answer = await call(path, query, signal, body)
  try {
    return await answer.json()
  } catch {
    throw new Refused(0, 'The answer broke off.')
  }
}

/**
 * Receives events until `signal` aborts, and reconnects whenever the connection is cut.
 * @param {string} path
 * @param {AbortSignal} signal
 * @param {{ onEvent(event: string, data: unknown): void, connected(): void, lost(retryMs: number): void, refused(why: Refused): void }} listener
 */
export async function listen(path, signal, listener) {
  let pauseMs = firstPauseMs
  while (!signal.aborted) {
    try {
      await listenOnce(path, signal, {
        onEvent: (event, data) => listener.onEvent(event, data),
        connected() {
          pauseMs = firstPauseMs
          listener.connected()
        },
      })
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) return listener.refused(error)
    }
    if (signal.aborted) return
    listener.lost(pauseMs)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
    pauseMs = Math.min(lastPauseMs, pauseMs * 2)
  }
}

/**
 * @param {string} path
 * @param {AbortSignal} signal
 * @param {{ onEvent(event: string, data: unknown): void, connected(): void }} listener
 */
async function listenOnce(path, signal, listener) {
  const silent = new AbortController()
  const stop = () => silent.abort()
  signal.addEventListener('abort', stop)
  let timer = setTimeout(stop, silenceMaxMs)
  try {
    const answer = await call(path, {}, silent.signal)
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
    if (reader === undefined) return
    listener.connected()
    const stream = new EventStream()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      clearTimeout(timer)
      timer = setTimeout(stop, silenceMaxMs)
      for (const { event, data } of stream.push(value)) listener.onEvent(event, data)
    }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

/**
 * @param {string} path
 * @param {Readonly<Record<string, string>>} query
 * @param {AbortSignal} signal
 * @param {object} [body]
 */
async function call(path, query, signal, body) {
  const url = new URL(path, document.baseURI)
  url.search = String(new URLSearchParams(query))
  const token = keptToken.get()
  const answer = await fetch(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal,
    cache: 'no-store',
    // In another server, or behind a proxy, its sign-in may be a cookie of this origin.
    credentials: 'same-origin',
    redirect: 'manual',
  }).catch(() => {
    throw new Refused(0, 'The server does not answer.')
  })
  if (answer.type === 'opaqueredirect') throw new Refused(401, signedOut)
  if (answer.ok) return answer
  throw new Refused(answer.status, await messageOf(answer))
}

/** @param {Response} answer */
async function messageOf(answer) {
  try {
    const { error } = await answer.json()
    return String(error.message)
  } catch {
    return `The server answered with status ${answer.status}.`
  }
}
