import { objectBytesMax } from './bucket.ts'

/** A body as text, which is let go of as soon as it is too long, or the signal aborts. */
export async function boundedText(body: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<string> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  const letGo = (): void => void reader.cancel().catch(() => {})
  signal.addEventListener('abort', letGo, { once: true })
  let text = ''
  for (let length = 0; ;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    length += value.byteLength
    if (length > objectBytesMax) {
      letGo()
      throw new Error(`The answer is longer than ${objectBytesMax} bytes`)
    }
    text += decoder.decode(value, { stream: true })
  }
}
