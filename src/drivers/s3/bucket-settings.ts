import type { Bucket, BucketSetting } from './bucket.ts'

const versioned =
  'The bucket keeps old versions of objects: every renewal of a lock stores one more, and you pay for all of them. Use a bucket without ' +
  'versioning, or a lifecycle rule with NoncurrentVersionExpiration.'
const locked =
  'The bucket has an object lock: what it retains cannot be tidied away, and every renewal of a lock stores one more version. Use another bucket.'
const untidied = (prefix: string): string =>
  `No lifecycle rule expires objects below ${JSON.stringify(prefix)}: an object stays of every name that was ever locked. Add one with 2 days or more.`
const hasty =
  'A lifecycle rule expires objects after one day: a lock may be lost that is held on a long lease. Make it 2 days or more.'

/** What an operator should know of the bucket. A setting that may not be read is passed over: a lock needs none. */
export async function settingsWarnings(bucket: Bucket, prefix: string, withinMs: number): Promise<readonly string[]> {
  const read = async (setting: BucketSetting): Promise<string | undefined> => {
    try {
      return (await bucket.setting(setting, withinMs)) ?? ''
    } catch {
      return undefined
    }
  }
  const settings: readonly BucketSetting[] = ['versioning', 'object-lock', 'lifecycle']
  const [versioning = '', lock = '', lifecycle] = await Promise.all(settings.map(read))
  const isLocked = /\bEnabled\b/.test(lock)
  const days = lifecycle === undefined ? undefined : expiryDays(lifecycle)
  return [
    ...(isLocked ? [locked] : /\bEnabled\b/.test(versioning) ? [versioned] : []),
    ...(lifecycle !== undefined && days === undefined ? [untidied(prefix)] : []),
    ...(days !== undefined && days < 2 ? [hasty] : []),
  ]
}

/** The fewest days after which a rule expires objects, whichever it is for; XML over HTTP, JSON from the SDK. */
function expiryDays(text: string): number | undefined {
  const found = [...text.matchAll(/<Expiration>\s*<Days>(\d+)<|"Expiration":\{[^}]*"Days":(\d+)/g)]
  const days = found.map(([, xml, json]) => Number(xml ?? json))
  return days.length === 0 ? undefined : days.reduce((least, each) => Math.min(least, each))
}
