import type { Answer, EventSource } from './call.ts'

/** An answer of JSON. `undefined` fields are absent. */
export function json(value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Answer {
  return {
    status,
    headers: { ...headers, 'content-type': 'application/json; charset=utf-8' },
    body: JSON.stringify(value),
  }
}

/** An answer of text, of a type such as `text/html; charset=utf-8`. */
export function text(body: string, type = 'text/plain; charset=utf-8', status = 200): Answer {
  return { status, headers: { 'content-type': type }, body }
}

/** An answer that goes on: server-sent events. */
export function events(source: EventSource): Answer {
  // Proxies that gather what they pass on would keep news back.
  return { status: 200, headers: { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' }, body: source }
}
