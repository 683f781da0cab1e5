import { InTransaction, NotSent, within } from './bounds.ts'
import { isInTransaction, type PgClient } from './pg-client.ts'

/** A single client for all requests. They take turns: pg no longer wants a statement before the last is answered. */
export class SerialClient {
  readonly #client: PgClient
  /** Never rejects. */
  #turn: Promise<unknown> = Promise.resolve()

  constructor(client: PgClient) {
    this.#client = client
  }

  /** Throws {@link NotSent} if its turn did not come in time. */
  async use<Result>(withinMs: number, work: (client: PgClient) => Promise<Result>): Promise<Result> {
    const request = { begun: false, givenUp: false }
    const before = this.#turn
    const result = (async () => {
      await before
      if (request.givenUp) throw new Error('The request was given up before its turn')
      request.begun = true
      const answer = await work(this.#client)
      if (isInTransaction(this.#client)) throw new InTransaction()
      return answer
    })()
    this.#turn = Promise.allSettled([result])
    try {
      return await within(result, withinMs)
    } catch (error) {
      if (request.begun) throw error
      request.givenUp = true
      throw new NotSent(error)
    }
  }
}
