import type { Duplex } from 'node:stream'

/**
 * Sends bytes as they are on a connection of their own, and gives what is answered first. `pause` resolves when an answer should have come: without
 * one our side is closed then, and the server has to close, too; after `giveUpMs` we do.
 */
export function sendBytes(
  socket: Duplex,
  bytes: string,
  { pause, giveUpMs }: { readonly pause: () => Promise<void>; readonly giveUpMs: number },
): Promise<string> {
  return new Promise((resolve) => {
    let answer = ''
    const giveUp = setTimeout(() => socket.destroy(), giveUpMs)
    socket.on('data', (piece: Buffer) => {
      answer += piece.toString('latin1')
      socket.destroy()
    })
    socket.once('close', () => {
      clearTimeout(giveUp)
      resolve(answer)
    })
    socket.write(Buffer.from(bytes, 'latin1'))
    void pause().then(() => socket.end())
  })
}
