import type { ListedKey, LockDriver } from '../../core/driver.ts'

const keysPerRead = 1000
/** Reads of one look: a store with more than ten thousand locks is not read whole every second. */
const readsMax = 10

/** What a store holds, as far as one look goes. */
export interface Look {
  /** The store's clock at the end of the look. */
  readonly now: number
  readonly keys: readonly ListedKey[]
  /** There are more. */
  readonly truncated: boolean
}

/** Reads the store's locks, all namespaces unless one is named. */
export async function lookAt(driver: Pick<LockDriver, 'list'>, namespace?: string): Promise<Look> {
  const keys: ListedKey[] = []
  let after: string | undefined
  let now = 0
  for (let reads = 0; reads < readsMax; reads += 1) {
    const page = await driver.list({
      limit: keysPerRead,
      ...(namespace !== undefined && { prefix: `${namespace}/` }),
      ...(after !== undefined && { after }),
    })
    keys.push(...page.keys)
    ;({ now } = page)
    after = page.next
    if (after === undefined) break
  }
  return { now, keys, truncated: after !== undefined }
}
