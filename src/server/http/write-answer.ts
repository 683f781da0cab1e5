import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'

const pieceBytes = 65_536

/**
 * Writes an answer whose head has been written, and cuts it off when nothing of it is read for so long: it would stay in
 * memory for as long as its connection, and no limit counts it any more. @internal
 */
export function writeAnswer(
  response: ServerResponse,
  body: string | Uint8Array,
  readWithinMs: number,
  unread: () => void,
): void {
  const isSmall = body.length * 3 <= pieceBytes
  if (isSmall) return endAnswer(response, readWithinMs, unread, body)
  cutOffUnread(response, readWithinMs, unread)
  // Each piece that is taken starts the time anew: slow is not gone.
  Readable.from(piecesOf(typeof body === 'string' ? Buffer.from(body) : body)).pipe(response)
}

/** Ends an answer, and cuts it off when nothing of what is left of it is read for so long. @internal */
export function endAnswer(
  response: ServerResponse,
  readWithinMs: number,
  unread: () => void,
  last: string | Uint8Array = '',
): void {
  response.end(last)
  // Otherwise the system has taken all of it.
  if (response.socket?.writableLength !== 0) cutOffUnread(response, readWithinMs, unread)
}

function cutOffUnread(response: ServerResponse, readWithinMs: number, unread: () => void): void {
  response.setTimeout(readWithinMs, () => {
    if (!response.writableFinished) unread()
    response.destroy()
  })
}

function* piecesOf(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let from = 0; from < bytes.length; from += pieceBytes) yield bytes.subarray(from, from + pieceBytes)
}
