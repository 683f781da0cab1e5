/**
 * The hash tags that spread keys over a cluster. Frozen: another tag for a key would be another lock.
 */

/**
 * One tag for each 64th part of a cluster's 16,384 slots, all of the same length, so that any number of nodes with equal
 * shares of the slots gets an equal share of the locks.
 */
export const hashTags: readonly string[] = [
  '464',
  '65b',
  '4b0',
  '6af',
  '574',
  '74b',
  '5c0',
  'ef6',
  '96a',
  'f12',
  '9be',
  'fe6',
  '094',
  '56b',
  '8ce',
  '5bf',
  '5a3',
  '7be',
  '557',
  '76a',
  'ffc',
  '6ce',
  '447',
  '67a',
  '8af',
  'fd8',
  '85b',
  '28a',
  'ddc',
  '4ae',
  '94b',
  '39a',
  '712',
  '52d',
  '7e6',
  'b37',
  '602',
  '43d',
  '6d6',
  'fa0',
  '532',
  'd49',
  '781',
  'eb0',
  'f4b',
  '931',
  '4f6',
  '8e8',
  '7d8',
  '4ec',
  '621',
  'f77',
  '6e8',
  '5dc',
  '731',
  'be0',
  'fbe',
  'da3',
  'f6a',
  '912',
  '5e5',
  '8d6',
  '511',
  '802',
]

/** The tag of a key. */
export function hashTagOf(key: string): string {
  return hashTags[hashTagNumberOf(key)] as string
}

/** The index in {@link hashTags} of a key's tag: FNV-1a over its UTF-16 code units. */
export function hashTagNumberOf(key: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < key.length; index += 1) {
    hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193)
  }
  // The low bits of FNV vary least for short keys.
  return ((hash >>> 16) ^ hash) & 63
}
