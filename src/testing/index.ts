export { version } from '../index.ts'
