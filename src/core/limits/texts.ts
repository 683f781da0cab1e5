import { utf8Length } from '../utf8-length.ts'
import { metadataDepthMax, requestBounds } from './bounds.ts'

/** What is wrong with a text of at most so many bytes, not empty where `least` is 1; undefined if nothing is. */
export function textFault(text: unknown, bytesMax: number, least = 1): string | undefined {
  if (typeof text !== 'string') return 'must be text'
  if (text.length < least) return 'must not be empty'
  // A character of a string takes three bytes at most, and only long texts are worth counting.
  if (text.length * 3 > bytesMax && utf8Length(text) > bytesMax) return `must be at most ${bytesMax} bytes long`
  // Some stores can keep neither, and would refuse all that is sent together with it.
  if (!text.isWellFormed()) return 'must be well-formed Unicode'
  if (text.includes('\0')) return 'must not have a NUL character'
  return undefined
}

/** What is wrong with the metadata of a claim; undefined if nothing is. Quick, unless the metadata is near its limit. */
export function metadataFault(metadata: unknown): string | undefined {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return 'must be an object'
  const size = { least: 0, most: 0, isDeeper: false }
  measure(metadata, metadataDepthMax, size)
  const { metadataBytesMax } = requestBounds
  if (size.isDeeper) return `must be nested at most ${metadataDepthMax} deep`
  if (size.most <= metadataBytesMax) return undefined
  const isTooLong = size.least > metadataBytesMax || !(bytesOf(metadata) <= metadataBytesMax)
  return isTooLong ? `must be at most ${metadataBytesMax} bytes of JSON` : undefined
}

/** Bounds of what a value takes as JSON. */
interface Size {
  least: number
  most: number
  isDeeper: boolean
}

/** Adds up what a value may take as JSON, without writing it, until it is too deep or certainly too long. */
function measure(value: unknown, levels: number, size: Size): void {
  if (typeof value === 'string') return addText(value, size)
  size.least += 1
  // What is neither text nor object is written in 24 characters, or cannot be written: then it is counted as endless.
  if (typeof value !== 'object' || value === null) {
    size.most += typeof value === 'bigint' ? Infinity : 26
    return
  }
  if (levels === 0) {
    size.isDeeper = true
    return
  }
  // An object that says itself how it is written may write anything.
  size.most += 'toJSON' in value ? Infinity : 2
  for (const name in value) {
    addText(name, size)
    measure((value as Readonly<Record<string, unknown>>)[name], levels - 1, size)
    if (size.isDeeper || size.least > requestBounds.metadataBytesMax) return
  }
}

/** In JSON a character takes six bytes at most; quotes, a colon and a comma come with it. */
function addText(text: string, size: Size): void {
  size.least += text.length
  size.most += 6 * text.length + 4
}

/** Infinity: it cannot be written. */
function bytesOf(value: object): number {
  try {
    return utf8Length(JSON.stringify(value))
  } catch {
    return Infinity
  }
}
