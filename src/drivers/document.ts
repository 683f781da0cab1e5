/** Locks in any store that can compare-and-swap one document: for stores that Leasehold has no driver for. */
export { documentDriver, type DocumentStore, type Loaded, type Swap } from '../core/document-driver.ts'
export { mayForget } from '../core/fence.ts'
export { fullSupport } from '../core/full-support.ts'
export type { KeyDocument } from '../core/key-document.ts'
