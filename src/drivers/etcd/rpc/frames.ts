/** How gRPC divides a stream of bytes into messages: one byte for compression, four for the length, then the message. */
import { BadMessage } from './protobuf.ts'

const headBytes = 5
/** More than all that one call may bring: a page of documents of which each is as long as etcd allows. */
const messageBytesMax = 1 << 29

/** The message as it is sent, not compressed. */
export function frame(message: Buffer): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** Makes messages out of the pieces in which they arrive. */
export class FrameReader {
  readonly #onMessage: (message: Buffer) => void
  #pieces: Buffer[] = []
  #length = 0

  constructor(onMessage: (message: Buffer) => void) {
    this.#onMessage = onMessage
  }

  push(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#length += piece.length
    for (let size = this.#nextSize(); size !== undefined && this.#length >= size; size = this.#nextSize()) {
      const all = this.#joined()
      this.#pieces = all.length > size ? [all.subarray(size)] : []
      this.#length -= size
      this.#onMessage(all.subarray(headBytes, size))
    }
  }

  /** How long the next message is, its head included; undefined: that has not arrived. */
  #nextSize(): number | undefined {
    if (this.#length < headBytes) return undefined
    const head = (this.#pieces[0]?.length ?? 0) < headBytes ? this.#joined() : (this.#pieces[0] as Buffer)
    if (head[0] !== 0) throw new BadMessage('a compressed message')
    const length = head.readUInt32BE(1)
    if (length > messageBytesMax) throw new BadMessage(`a message of ${length} bytes`)
    return headBytes + length
  }

  #joined(): Buffer {
    if (this.#pieces.length > 1) this.#pieces = [Buffer.concat(this.#pieces)]
    return this.#pieces[0] ?? Buffer.alloc(0)
  }
}
