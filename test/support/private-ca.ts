import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
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
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const newKey = (name: string): readonly string[] => [...curve, '-keyout', file(`${name}.key`)]
  openssl('req', '-x509', ...newKey('ca'), '-days', '2', '-out', file('ca.crt'), '-subj', '/CN=Leasehold tests')
  openssl('req', '-new', ...newKey('server'), '-out', file('server.csr'), '-subj', '/CN=localhost')
  writeFileSync(file('names'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n')
  const signedByCa = ['-CA', file('ca.crt'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '2']
  const signed = ['-in', file('server.csr'), '-out', file('server.crt'), '-extfile', file('names')]
  openssl('x509', '-req', ...signedByCa, ...signed)
  return { caFile: file('ca.crt'), certificateFile: file('server.crt'), keyFile: file('server.key') }
}
