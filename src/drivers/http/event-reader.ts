/** One server-sent event. */
export interface ServerEvent {
  readonly event: string
  readonly data: string
}

/** No event of ours is longer. */
const charactersMax = 1_048_576

/** Makes events out of the pieces in which they arrive. Comments are dropped. */
export class EventReader {
  readonly #onEvent: (event: ServerEvent) => void
  #text = ''
  /** A line feed that comes next belongs to it. */
  #endsInReturn = false
  #event = ''
  #data: string[] = []
  #dataLength = 0

  constructor(onEvent: (event: ServerEvent) => void) {
    this.#onEvent = onEvent
  }

  /** Takes in a piece. False: this is no stream of ours, and not worth reading on. */
  read(piece: string): boolean {
    const endsLine = this.#endsInReturn || /[\r\n]/.test(piece)
    this.#text += piece
    // What came before is looked through once a line ends, not with every piece of it.
    if (endsLine) this.#takeLines()
    return this.#text.length + this.#dataLength <= charactersMax && this.#data.length <= 1000
  }

  #takeLines(): void {
    const lines = this.#text.split(/\r\n|\r(?!$)|\n/)
    this.#text = lines.pop() ?? ''
    this.#endsInReturn = this.#text.endsWith('\r')
    for (const line of lines) this.#take(line)
  }

  #take(line: string): void {
    if (line === '') return this.#complete()
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []
    if (field === 'event') this.#event = value ?? ''
    else if (field === 'data') {
      this.#data.push(value ?? '')
      this.#dataLength += value?.length ?? 0
    }
  }

  #complete(): void {
    const event = { event: this.#event, data: this.#data.join('\n') }
    const isEmpty = this.#data.length === 0
    this.#event = ''
    this.#data = []
    this.#dataLength = 0
    if (!isEmpty) this.#onEvent(event)
  }
}
