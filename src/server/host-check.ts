import { invalid, HttpError } from './http-error.ts'
import { LeaseholdError } from '../core/errors.ts'

/** Whether an address, or a name for one, can only be this machine. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  return name === 'localhost' || name.endsWith('.localhost') || name === '::1' || /^127(\.\d{1,3}){3}$/.test(name)
}

/**
 * Refuses a call that came under a name other than this machine's own. A page of another site can have its own name lead
 * here (DNS rebinding), and its browser would then let it read what we answer; but it cannot change the name it sends.
 */
export function checkHost(host: string | undefined): void {
  if (host === undefined) throw invalid('A call needs the header Host.')
  if (isLoopback(host.replace(/:\d*$/, ''))) return
  const message = `This server has no tokens and answers to localhost only, not to ${JSON.stringify(host)}.`
  throw new HttpError(403, 'host', new LeaseholdError('UNAVAILABLE', message, { reason: 'auth' }))
}
