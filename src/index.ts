export { connect } from './api/connect.ts'
export * from './exports.ts'
