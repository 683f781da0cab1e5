/** One server-sent event. */
export interface ServerEvent {
  readonly event: string
  readonly data: string
}

/** No event of ours is longer. */
const charactersMax = 1_048_576

/** Makes events out of the pieces in which they arrive. Comments are dropped. */
export class EventReader {
  readonly #told: (event: ServerEvent) => void
  #text = ''
  #event = ''
  #data: string[] = []

  constructor(told: (event: ServerEvent) => void) {
    this.#told = told
  }

  /** Takes in a piece. False: this is no stream of ours, and not worth reading on. */
  read(piece: string): boolean {
    this.#text += piece
    const lines = this.#text.split(/\r\n|\r(?!$)|\n/)
    this.#text = lines.pop() ?? ''
    for (const line of lines) this.#take(line)
    return this.#text.length <= charactersMax && this.#data.length <= 1000
  }

  #take(line: string): void {
    if (line === '') return this.#complete()
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []
    if (field === 'event') this.#event = value ?? ''
    else if (field === 'data') this.#data.push(value ?? '')
  }

  #complete(): void {
    const event = { event: this.#event, data: this.#data.join('\n') }
    const isEmpty = this.#data.length === 0
    this.#event = ''
    this.#data = []
    if (!isEmpty) this.#told(event)
  }
}
