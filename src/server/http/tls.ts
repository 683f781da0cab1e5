import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server, type ServerOptions } from 'node:https'
import type { Socket } from 'node:net'
import { TLSSocket, type SecureContextOptions } from 'node:tls'
import { LeaseholdError, messageOf } from '../../core/errors.ts'

/** Certificate and key, as PEM, and whose client certificates are taken. */
export interface TlsOptions {
  readonly cert: string | Buffer
  readonly key: string | Buffer
  /**
   * The certificates of the authorities that sign client certificates, PEM. A token names the certificates that stand for it.
   *
   * @default none: clients are not asked for certificates
   */
  readonly clientCa?: string | Buffer | undefined
  /**
   * With `clientCa`: whether a client without a certificate is refused.
   *
   * @default 'required'
   */
  readonly clients?: 'required' | 'optional' | undefined
}

/** A server that speaks TLS. Throws INVALID where certificate and key cannot be used. @internal */
export function secureServer(
  options: ServerOptions,
  tls: TlsOptions,
  onRequest: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  const { clientCa, clients = 'required' } = tls
  const asksForCertificates = clientCa !== undefined
  return usable(tls, (context) =>
    createServer(
      {
        ...options,
        ...context,
        requestCert: asksForCertificates,
        rejectUnauthorized: asksForCertificates && clients === 'required',
      },
      onRequest,
    ),
  )
}

/** Uses other certificates from the next connection on. Throws INVALID, and changes nothing, where they cannot be used. @internal */
export function replaceCertificates(server: Server, tls: TlsOptions): void {
  usable(tls, (context) => server.setSecureContext(context))
}

function usable<Result>(tls: TlsOptions, use: (context: SecureContextOptions) => Result): Result {
  const { cert, key, clientCa } = tls
  // Node takes what is empty for what is absent, and would serve without a certificate.
  if (cert.length === 0 || key.length === 0) throw unusable('one of them is empty')
  if (clientCa?.length === 0) throw unusable('the authority of the clients is empty')
  try {
    // Checked before the server is made: Bun reports a bad certificate only when it listens, Deno never.
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) throw new Error('they differ')
    if (clientCa !== undefined) void new X509Certificate(clientCa)
    // New keys for tickets: a session that was resumed would bring along a certificate that was checked by older rules.
    return use({
      cert,
      key,
      ...(clientCa !== undefined && { ca: clientCa }),
      ticketKeys: randomBytes(48),
    })
  } catch (error) {
    throw unusable(messageOf(error), error)
  }
}

function unusable(why: string, cause?: unknown): LeaseholdError {
  const message = `The certificate and key cannot be used: ${why}. Both are PEM, and belong together.`
  return new LeaseholdError('INVALID', message, { cause })
}

/** The names in the client certificate of a connection, if an authority of ours has signed it: `dns:worker.example`. @internal */
export function certificateNamesOf(socket: Socket): readonly string[] {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return []
  const { subject, subjectaltname } = socket.getPeerCertificate()
  // Absent if the client sent none, whatever the types say.
  if (subject === undefined) return []
  const commonName: unknown = subject.CN
  const cn = typeof commonName === 'string' ? [`cn:${commonName}`] : []
  return [...cn, ...alternativeNames(subjectaltname ?? '')]
}

const alternativeForm =
  /(DNS|URI|email):("(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)|([A-Za-z ]+):(?:"(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)/y

/** `DNS:a.example, URI:spiffe://…`, as Node writes it: what could be mistaken for a separator is in quotes. */
export function alternativeNames(text: string): readonly string[] {
  const names: string[] = []
  alternativeForm.lastIndex = 0
  while (alternativeForm.lastIndex < text.length) {
    const found = alternativeForm.exec(text)
    // Not as we know it: better no name than a wrong one.
    if (found === null) return []
    const [, kind, value = ''] = found
    if (kind !== undefined)
      names.push(`${kind.toLowerCase()}:${value.startsWith('"') ? (JSON.parse(value) as string) : value}`)
  }
  return names
}
