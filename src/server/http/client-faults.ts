import type { Duplex } from 'node:stream'

/**
 * Answers what Node could not even read, or what was too slow with its head: says what is wrong, and closes the connection. `isBehind`: it
 * came behind a whole call, and would be answered in the place of that one, which is being carried out. @internal
 */
export function answerFault(error: NodeJS.ErrnoException, socket: Duplex, isBehind: boolean): void {
  // What fails before there is HTTP, as a TLS handshake that never ends, cannot be written to: it would be kept for good.
  if (!socket.writable || !isOfHttp(error) || isBehind) return void socket.destroy()
  const [status, message] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'The head of the request is too long.']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'The request did not arrive in time.']
        : ['400 Bad Request', 'This is not HTTP.']
  const body = JSON.stringify({ error: { code: 'INVALID', message } })
  const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\nconnection: close`
  // Not left to the caller, who may never close its side.
  socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`, () => socket.destroy())
}

/** Whether Node's parser, or its time limit for a request, has complained. */
function isOfHttp({ code = '' }: NodeJS.ErrnoException): boolean {
  return code.startsWith('HPE_') || code === 'ERR_HTTP_REQUEST_TIMEOUT'
}
