/**
 * Which fence of the driver stands for which of the model. Their values differ, since every store counts from where it
 * likes; their order must not.
 */
export class FenceMap {
  readonly #pairs: { readonly model: number; readonly driver: number }[] = []

  /** Notes that the two stand for the same grant. Says what is wrong with that, if anything. */
  match(model: number, driver: number): string | undefined {
    if (!Number.isSafeInteger(driver) || driver <= 0) return `fence ${driver} is no safe integer above zero`
    for (const pair of this.#pairs) {
      if (Math.sign(model - pair.model) === Math.sign(driver - pair.driver)) continue
      if (driver === pair.driver) return `fence ${driver} was given to two claims`
      if (model === pair.model) return `the fence of a claim changed from ${pair.driver} to ${driver}`
      return `fence ${driver} is out of order: it should be ${model < pair.model ? 'below' : 'above'} ${pair.driver}`
    }
    this.#pairs.push({ model, driver })
    return undefined
  }
}
