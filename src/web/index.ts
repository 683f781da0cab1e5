/**
 * What `leasehold` is in pages and edge workers. The same, but `connect` opens only stores that can be reached from there, so that a bundle
 * has no code that needs Node.
 */
export * from '../exports.ts'
export { connect } from './connect.ts'
