/** Locks in any store that can compare-and-swap one document: for stores that Leasehold has no driver for. */
export { documentDriver, type DocumentStore, type Loaded, type Swap } from './document-driver.ts'
export { mayForget } from '../../core/rule/fence.ts'
export { fullSupport } from '../../core/contract/supports.ts'
export type { KeyDocument } from './key-document.ts'
