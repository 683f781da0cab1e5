import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { needProgram } from './debian.ts'

/** A certificate and its key, PEM. */
export interface CertificatePair {
  readonly cert: Buffer
  readonly key: Buffer
}

/** An authority for client certificates, made for one test. */
export interface ClientAuthority {
  readonly ca: Buffer
  /** Signs a certificate for a subject such as `/CN=worker`, with alternative names such as `DNS:worker.example`. */
  sign(subject: string, alternativeNames?: string, purpose?: 'clientAuth' | 'serverAuth'): CertificatePair
}

/** Makes an authority in a folder. */
export function makeClientAuthority(folder: string, name = 'clients'): ClientAuthority {
  const program = needProgram('openssl', ['openssl'])
  const openssl = (...args: readonly string[]): void => void execFileSync(program, args, { stdio: 'ignore' })
  const file = (of: string): string => path.join(folder, `${name}-${of}`)
  const newKey = (key: string): readonly string[] => [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-keyout',
    file(key),
  ]
  openssl('req', '-x509', ...newKey('ca.key'), '-days', '2', '-out', file('ca.crt'), '-subj', `/CN=${name}`)
  let made = 0
  return {
    ca: readFileSync(file('ca.crt')),
    sign(subject, alternativeNames, purpose = 'clientAuth') {
      made += 1
      openssl('req', '-new', ...newKey(`${made}.key`), '-out', file(`${made}.csr`), '-subj', subject)
      const names = alternativeNames === undefined ? '' : `subjectAltName=${alternativeNames}\n`
      writeFileSync(file(`${made}.ext`), `${names}extendedKeyUsage=${purpose}\n`)
      const signer = ['-CA', file('ca.crt'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '2']
      const request = ['-in', file(`${made}.csr`), '-out', file(`${made}.crt`), '-extfile', file(`${made}.ext`)]
      openssl('x509', '-req', ...signer, ...request)
      return { cert: readFileSync(file(`${made}.crt`)), key: readFileSync(file(`${made}.key`)) }
    },
  }
}
