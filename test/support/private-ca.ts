import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { needProgram } from './debian.ts'

/** The files of a certificate authority made for one test, and of a server's certificate that it has signed. */
export interface PrivateCa {
  readonly caFile: string
  readonly certificateFile: string
  readonly keyFile: string
}

/** Makes them in a folder, for servers called localhost or 127.0.0.1. */
export function makePrivateCa(folder: string): PrivateCa {
  const program = needProgram('openssl', ['openssl'])
  const openssl = (...args: readonly string[]): void => void execFileSync(program, args, { stdio: 'ignore' })
  const file = (name: string): string => path.join(folder, name)
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  const names = 'subjectAltName=DNS:localhost,IP:127.0.0.1'
  openssl('req', '-x509', ...newKey, '-keyout', file('ca.key'), '-out', file('ca.crt'), '-subj', '/CN=Leasehold tests')
  const signedByCa = ['-CA', file('ca.crt'), '-CAkey', file('ca.key')]
  const asked = ['-keyout', file('server.key'), '-out', file('server.crt'), '-subj', '/CN=localhost', '-addext', names]
  openssl('req', '-x509', ...newKey, ...signedByCa, ...asked, '-addext', 'basicConstraints=critical,CA:FALSE')
  return { caFile: file('ca.crt'), certificateFile: file('server.crt'), keyFile: file('server.key') }
}
