import type { IncomingMessage } from 'node:http'
import type { Limits } from './limits.ts'
import { invalid } from './http-error.ts'

/** Reads the JSON that a POST came with, up to the limits of size and time. */
export async function readBody(request: IncomingMessage, limits: Limits): Promise<unknown> {
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase()
  // A page of another site can make a browser send any other type without asking first.
  if (type !== 'application/json') throw invalid('A POST needs the header Content-Type: application/json.', 415, 'body')
  const bytes = await readBytes(request, limits)
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw invalid('The body is not JSON.', 400, 'body')
  }
}

function readBytes(request: IncomingMessage, { bodyBytesMax, bodyWithinMs }: Limits): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let length = 0
    const timer = setTimeout(() => {
      settle()
      reject(invalid(`The body did not arrive within ${bodyWithinMs} ms.`, 408, 'body'))
    }, bodyWithinMs)
    const take = (piece: Buffer): void => {
      length += piece.length
      pieces.push(piece)
      if (length <= bodyBytesMax) return
      settle()
      reject(tooLong(bodyBytesMax))
    }
    const end = (): void => {
      settle()
      resolve(Buffer.concat(pieces))
    }
    const gone = (): void => {
      settle()
      reject(invalid('The body broke off.', 400, 'body'))
    }
    const settle = (): void => {
      clearTimeout(timer)
      request.off('data', take).off('end', end).off('close', gone).off('error', gone).pause()
    }
    if (Number(request.headers['content-length']) > bodyBytesMax) {
      clearTimeout(timer)
      reject(tooLong(bodyBytesMax))
      return
    }
    request.on('data', take).once('end', end).once('close', gone).once('error', gone)
  })
}

function tooLong(bytesMax: number): Error {
  return invalid(`The body is longer than ${bytesMax} bytes. Send less at once.`, 413, 'body')
}
