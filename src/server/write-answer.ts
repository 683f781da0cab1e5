import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'

const pieceBytes = 65_536

/**
 * Writes an answer whose head has been written, and cuts it off when nothing of it is read for so long: it would stay in
 * memory for as long as its connection, and no limit counts it any more.
 */
export function writeAnswer(response: ServerResponse, body: string, readWithinMs: number): void {
  response.setTimeout(readWithinMs, () => void response.destroy())
  if (body.length * 3 <= pieceBytes) response.end(body)
  // Each piece that is taken starts the time anew: slow is not gone.
  else Readable.from(piecesOf(Buffer.from(body))).pipe(response)
}

function* piecesOf(bytes: Buffer): Iterable<Buffer> {
  for (let from = 0; from < bytes.length; from += pieceBytes) yield bytes.subarray(from, from + pieceBytes)
}
