import type { Mutants } from './mutant.ts'

const file = (name: string): string => `src/drivers/s3/${name}.ts`
const faults = (title: string): readonly [string] => [`integration/s3-faults > ${title}`]
const unit = ['unit/s3'] as const

/** S3: an object a key, by conditional writes. */
export const s3: Mutants = {
  'S3: a first write has no condition': {
    file: file('http-bucket'),
    find: "etag === undefined ? { 'if-none-match': '*' } : { 'if-match': etag }",
    replace: "etag === undefined ? {} : { 'if-match': etag }",
    foundBy: faults('and one of twenty drivers wins'),
  },
  'S3: a first write of the AWS SDK has no condition': {
    file: file('sdk-bucket'),
    find: "etag === undefined ? { IfNoneMatch: '*' } : { IfMatch: etag }",
    replace: 'etag === undefined ? {} : { IfMatch: etag }',
    foundBy: faults('by the AWS SDK, after the connection was cut'),
  },
  'S3: a store that ignores If-Match is taken': {
    file: file('store'),
    find: "        if (await bucket.put(name, text, noEtag, timeoutMs)) throw unsafe(bucket, 'If-Match')\n",
    replace: '',
    foundBy: faults('because it ignores if-match'),
  },
  'S3: a store that ignores If-None-Match is taken': {
    file: file('store'),
    find: "        if (isFirst && (await bucket.put(name, text, undefined, timeoutMs))) throw unsafe(bucket, 'If-None-Match')\n",
    replace: '',
    foundBy: faults('because it ignores if-none-match'),
  },
  'S3: a refused write is never looked for': {
    file: file('store'),
    find: 'return found !== undefined && parsed(found.text).nonce === document.nonce',
    replace: 'return false',
    foundBy: faults('by this driver, after S3 failed by itself'),
  },
  'S3: a refused write was ours if an object is there': {
    file: file('store'),
    find: 'return found !== undefined && parsed(found.text).nonce === document.nonce',
    replace: 'return found !== undefined',
    foundBy: faults('and one of twenty drivers wins'),
  },
  'S3: the object has no nonce': {
    file: file('store'),
    find: 'const text = JSON.stringify({ key, ...document })',
    replace: "const text = JSON.stringify({ key, ...document, nonce: '' })",
    foundBy: faults('by this driver, after S3 failed by itself'),
  },
  'S3: 409 is a write that was carried out': {
    file: file('http-bucket'),
    find: 'if (error instanceof S3Fault && (error.isConflict || error.isMissingObject)) return false',
    replace: 'if (error instanceof S3Fault && (error.isConflict || error.isMissingObject)) return error.status === 409',
    foundBy: faults('a lost race is run again after 409'),
  },
  'S3: 409 is a failure': {
    file: file('s3-fault'),
    find: 'return this.status === 412 || this.status === 409',
    replace: 'return this.status === 412',
    foundBy: faults('a lost race is run again after 409'),
  },
  'S3: any 404 is a free lock': {
    file: file('s3-fault'),
    find: "return this.status === 404 && this.code === 'NoSuchKey'",
    replace: 'return this.status === 404',
    foundBy: faults('a 404 that is not of the object'),
  },
  'S3: a write whose answer was lost is thought to have failed': {
    file: file('store'),
    find: '          return { unknown: s3Error(error) }\n',
    replace: "          return 'conflict'\n",
    foundBy: faults('and where the reply is lost for good'),
  },
  'S3: an empty ETag is compared': {
    file: file('s3-fault'),
    find: "if (strong === '') throw new Error",
    replace: "if (strong === 'none') throw new Error",
    foundBy: faults('that hides the ETag'),
  },
  'S3: a weak ETag is compared': {
    file: file('s3-fault'),
    find: "etag?.replace(/^W\\//, '') ?? ''",
    replace: "etag ?? ''",
    foundBy: faults('that compresses'),
  },
  'S3: a cache on the way may answer an older copy': {
    file: file('http-bucket'),
    find: "'cache-control': 'no-store', ",
    replace: '',
    foundBy: faults('old content that is written back'),
  },
  'S3: the condition of a write is not signed': {
    file: file('signature'),
    find: 'const signed = Object.entries({ ...sent, host: url.host }).toSorted',
    replace:
      "const signed = Object.entries({ ...sent, host: url.host }).filter(([name]) => !name.startsWith('if-')).toSorted",
    foundBy: unit,
  },
  'S3: a lease may outlive the lifecycle rule that tidies': {
    file: file('driver'),
    find: 'const ttlAndGraceMaxMs = 20 * 3_600_000',
    replace: 'const ttlAndGraceMaxMs = 200 * 3_600_000',
    foundBy: unit,
  },
  'S3: a lifecycle rule of one day is thought slow enough': {
    file: file('bucket-settings'),
    find: '...(days !== undefined && days < 2 ? [hasty] : [])',
    replace: '...(days !== undefined && days < 1 ? [hasty] : [])',
    foundBy: faults('versions, an object lock'),
  },
  'S3: long keys that begin alike share an object': {
    file: file('object-names'),
    find: '~${await sha256Hex(key)}`',
    replace: '~${await sha256Hex(letters.slice(0, lettersMax))}`',
    foundBy: unit,
  },
  'S3: a key shares the object of another as it is encoded': {
    file: file('object-names'),
    find: 'return /[A-Za-z0-9-]/.test(letter)',
    replace: 'return /[A-Za-z0-9_-]/.test(letter)',
    foundBy: unit,
  },
  'S3: a listing leaves out what is held': {
    file: file('store'),
    find: 'const idleBytesMax = 150',
    replace: 'const idleBytesMax = 1500',
    foundBy: faults('a listing reads no objects'),
  },
  'S3: an object that cannot be read is a free lock': {
    file: file('store'),
    find: 'return { document: undefined, revision: undefined, error: s3Error(result.reason) }',
    replace: 'return { document: undefined, revision: undefined }',
    foundBy: faults('an object that cannot be read'),
  },
  'S3: an object that is damaged is a free lock': {
    file: file('store'),
    find: '  return { version: 1 } as unknown as StoredText\n',
    replace: '  return { version: 1, lastFence: 0, claims: [] } as unknown as StoredText\n',
    foundBy: faults('an object that is damaged'),
  },
}
