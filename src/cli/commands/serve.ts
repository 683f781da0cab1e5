import { readFileSync } from 'node:fs'
import { messageOf, plainMessageOf } from '../../core/errors.ts'
import { LeaseholdError, type Logger } from '../../index.ts'
import { isLoopback } from '../../server/auth/origins.ts'
import type {
  AuditOptions,
  JwtOptions,
  LeaseholdServer,
  RateOptions,
  ServerLimits,
  TlsOptions,
  TokenOptions,
} from '../../server/index.ts'
import { numberOption, type ParsedArguments } from '../arguments.ts'
import type { Command, CommandContext } from '../command.ts'
import { signalExitCode, UsageError } from '../exit-codes.ts'
import { Interruption, type EndingSignal } from '../interruption.ts'
import { chooseStore, describeStore, storeUrlHelp } from '../stores/store.ts'
import { quoted } from '../output/terminal-text.ts'
import { readJwtFile } from '../stores/jwt-file.ts'
import { readSecretFile, readTrustedFile } from '../stores/secret-file.ts'
import { readTokensFile } from '../stores/tokens-file.ts'

const help = `Usage: leasehold serve [options]

Serves a store over HTTP, for clients that cannot or may not reach it directly: they use --store http://HOST:PORT. The
same address shows a dashboard in a browser: locks, queues, who waits for whom, evictions. SIGTERM or SIGINT ends the
server once the calls under way are answered. SIGHUP reloads tokens, JWT settings and certificates, and reopens the
audit.

Options:
${storeUrlHelp}
  --host HOST         where to listen; default 127.0.0.1. Any other address needs --tokens
  --port NUMBER       default 7411; 0: any free port
  --tokens FILE       who may do what: a JSON file that only you can read; default $LEASEHOLD_TOKENS
                      [{ "name": "ci", "token": "…", "namespaces": ["builds"], "rights": ["lock", "read"] }]
  --jwt FILE          which JSON Web Tokens are taken, beside --tokens or instead: a JSON file, see docs/server.md
  --audit FILE        record every change, refusal, forced take and failed sign-in as JSON lines; - for standard output
  --audit-renewals    record plain renewals, too
  --token-rate N[/B]  requests a second that a token may send, and B at once; default: as many as it likes
  --address-rate N[/B] calls a second that an address may make, and B at once; default: as many as it likes
  --limits LIMITS     other limits than the defaults, see docs/server.md: callsPerTokenMax=200,claimsPerTokenMax=1000
  --trusted-proxies ADDRESSES
                      proxies whose X-Forwarded-For is believed: 10.0.0.7,10.1.0.0/16
  --cors-origins URLS origins whose pages may call from a browser: https://app.example,https://other.example
  --tls-cert FILE     the certificate and its chain, PEM
  --tls-key FILE      the private key, PEM: a file that only you can read
  --tls-client-ca FILE
                      ask clients for certificates that these authorities have signed, PEM; tokens name them
  --tls-clients WHICH required (default): refuse clients without one; optional: they need a token

Examples:
  leasehold serve --store sqlite:locks.sqlite
  leasehold serve --store redis://127.0.0.1 --host 0.0.0.0 --tokens tokens.json --tls-cert cert.pem --tls-key key.pem
  leasehold run nightly --store http://127.0.0.1:7411 -- ./backup.sh
`

/** `leasehold serve` */
export const serveCommand: Command = {
  name: 'serve',
  summary: 'serve a store over HTTP',
  help,
  options: {
    store: { type: 'string' },
    host: { type: 'string' },
    port: { type: 'string' },
    tokens: { type: 'string' },
    jwt: { type: 'string' },
    audit: { type: 'string' },
    'audit-renewals': { type: 'boolean' },
    'token-rate': { type: 'string' },
    'address-rate': { type: 'string' },
    limits: { type: 'string' },
    'trusted-proxies': { type: 'string' },
    'cors-origins': { type: 'string' },
    'tls-cert': { type: 'string' },
    'tls-key': { type: 'string' },
    'tls-client-ca': { type: 'string' },
    'tls-clients': { type: 'string', choices: ['required', 'optional'] },
    help: { type: 'boolean', short: 'h' },
  },
  // A reader of standard error that stops reading must not block the server.
  run: (given, context) => context.messages.withoutWaiting(() => runServer(given, context)),
}

async function runServer(given: ParsedArguments, context: CommandContext): Promise<number> {
  const [more] = given.positionals
  if (more !== undefined) throw new UsageError(`serve takes options only; ${quoted(more)} is one word too many.`)
  const { messages, variables } = context
  const { url } = chooseStore(given, variables)
  const tokensFile = given.texts.get('tokens') ?? (variables['LEASEHOLD_TOKENS'] || undefined)
  const files = filesOf(given, tokensFile)
  const interruption = new Interruption()
  try {
    let server: LeaseholdServer | undefined
    // Listen for signals first: a store may take long to open.
    const { first, second } = endings(interruption, () => server && void reload(server, files, messages))
    const abandoned = second.then((signal) => signalExitCode(signal))
    const started = await Promise.race([start(given, url, files, loggerTo(messages)), abandoned])
    if (typeof started === 'number') return started
    server = started
    messages.say(`serving ${describeStore(url)} on ${server.url}, ${accessText(files)}`)
    if (isReadable(server.url)) messages.say('without TLS, tokens can be read on the network')
    messages.say(`closing on ${await first}: calls under way are being answered`)
    const code = await Promise.race([server.close().then(() => 0), abandoned])
    messages.say(code === 0 ? 'closed' : 'closed before all calls were answered')
    return code
  } finally {
    interruption[Symbol.dispose]()
  }
}

async function start(
  given: ParsedArguments,
  store: string,
  files: ServerFiles,
  logger: Logger,
): Promise<LeaseholdServer> {
  const host = given.texts.get('host')
  const port = numberOption(given, 'port', { from: 0, to: 65_535 })
  const corsOrigins = given.texts.get('cors-origins')?.split(',')
  const trustedProxies = given.texts.get('trusted-proxies')?.split(',')
  const perToken = rateOption(given, 'token-rate')
  const perAddress = rateOption(given, 'address-rate')
  const audit = auditOf(given)
  const limits = limitsOption(given)
  const tls = files.tls?.()
  const tokens = files.tokens?.()
  const jwt = files.jwt?.()
  // Loaded on demand: other commands start faster without it.
  const [server, { dashboard }] = await Promise.all([
    import('../../server/index.ts'),
    import('../../server/operators.ts'),
  ])
  return server.serve({
    store,
    logger,
    routes: dashboard({ logger }),
    ...(host !== undefined && { host }),
    ...(port !== undefined && { port }),
    ...(tokens !== undefined && { tokens }),
    ...(jwt !== undefined && { jwt }),
    ...(audit !== undefined && { audit }),
    ...(trustedProxies !== undefined && { trustedProxies }),
    rateLimits: { perToken, perAddress },
    ...(limits !== undefined && { limits }),
    ...(corsOrigins !== undefined && { corsOrigins }),
    ...(tls !== undefined && { tls }),
  })
}

/** The first ending signal closes the server; the second ends the process without waiting for open calls. */
function endings(
  interruption: Interruption,
  hangUp: () => void,
): { readonly first: Promise<EndingSignal>; readonly second: Promise<EndingSignal> } {
  const resolvers: ((signal: EndingSignal) => void)[] = []
  const first = new Promise<EndingSignal>((resolve) => resolvers.push(resolve))
  const second = new Promise<EndingSignal>((resolve) => resolvers.push(resolve))
  interruption.receiver = (signal) => (signal === 'SIGHUP' ? hangUp() : resolvers.shift()?.(signal))
  return { first, second }
}

/** What is read when the server starts, and again on SIGHUP. Absent: not asked for. */
interface ServerFiles {
  readonly tokens: (() => readonly TokenOptions[]) | undefined
  readonly jwt: (() => JwtOptions) | undefined
  readonly tls: (() => TlsOptions) | undefined
  readonly hasAudit: boolean
  /** For people: where the tokens are. */
  readonly named: readonly string[]
}

function filesOf(given: ParsedArguments, tokensFile: string | undefined): ServerFiles {
  const jwtFile = given.texts.get('jwt')
  const hasAudit = given.texts.has('audit')
  return {
    tokens: tokensFile === undefined ? undefined : () => readTokensFile(tokensFile),
    jwt: jwtFile === undefined ? undefined : () => readJwtFile(jwtFile),
    tls: tlsOf(given),
    hasAudit,
    named: [tokensFile, jwtFile].flatMap((file) => file ?? []),
  }
}

/** Reads every file again. If one is invalid, the server keeps what it has of it, and says so. */
async function reload(
  server: LeaseholdServer,
  files: ServerFiles,
  messages: CommandContext['messages'],
): Promise<void> {
  const { tokens, jwt, tls, hasAudit } = files
  const attempt = async (what: string, action: () => string | Promise<string>): Promise<void> => {
    try {
      messages.say(await action())
    } catch (error) {
      messages.say(`${what} as they were: ${plainMessageOf(error)}`)
    }
  }
  if (tokens === undefined) messages.say('there are no tokens to reload')
  else {
    await attempt('the tokens stay', () => {
      const read = tokens()
      server.replaceTokens(read)
      return read.length === 1 ? '1 token reloaded' : `${read.length} tokens reloaded`
    })
  }
  if (jwt !== undefined) {
    await attempt('the settings for JWTs stay', async () => {
      await server.replaceJwt(jwt())
      return 'the settings for JWTs reloaded'
    })
  }
  if (tls !== undefined) {
    await attempt('the certificates stay', () => {
      server.replaceTls(tls())
      return 'the certificates reloaded'
    })
  }
  if (hasAudit) {
    await attempt('the audit and its file stay', async () => {
      await server.reopenAudit()
      return 'the audit reopened'
    })
  }
}

function auditOf(given: ParsedArguments): AuditOptions | undefined {
  const file = given.texts.get('audit')
  const renewals = given.flags.has('audit-renewals')
  if (file === undefined && renewals) throw new UsageError('--audit-renewals needs --audit.')
  return file === undefined ? undefined : { file, renewals }
}

/** `100` or `100/500`: so many a second, and so many at once. */
function rateOption(given: ParsedArguments, name: string): RateOptions | undefined {
  const text = given.texts.get(name)
  if (text === undefined) return undefined
  const [, perSecond, burst] = /^(\d+(?:\.\d+)?)(?:\/(\d+))?$/.exec(text) ?? []
  if (perSecond === undefined || Number(perSecond) === 0) {
    throw new UsageError(`--${name} is a number above 0, such as 100, or 100/500 with how many at once.`)
  }
  return { perSecond: Number(perSecond), ...(burst !== undefined && { burst: Number(burst) }) }
}

/** Which limits there are, and how far they go, the server checks. */
function limitsOption(given: ParsedArguments): Partial<ServerLimits> | undefined {
  const text = given.texts.get('limits')
  if (text === undefined) return undefined
  const pairs = text.split(',').map((pair) => {
    const [, name, value] = /^(\w+)=(\d+)$/.exec(pair) ?? []
    if (name === undefined) throw new UsageError(`--limits has ${quoted(pair)}. Write NAME=NUMBER,NAME=NUMBER.`)
    return [name, Number(value)] as const
  })
  return Object.fromEntries(pairs)
}

function tlsOf(given: ParsedArguments): (() => TlsOptions) | undefined {
  const cert = given.texts.get('tls-cert')
  const key = given.texts.get('tls-key')
  const clientCa = given.texts.get('tls-client-ca')
  const clients = given.texts.get('tls-clients')
  if (clients !== undefined && clients !== 'required' && clients !== 'optional') {
    throw new UsageError('--tls-clients is required or optional.')
  }
  if (clients !== undefined && clientCa === undefined) throw new UsageError('--tls-clients needs --tls-client-ca.')
  if (cert === undefined && key === undefined && clientCa === undefined) return undefined
  if (cert === undefined || key === undefined) throw new UsageError('--tls-cert and --tls-key go together.')
  return () => ({
    cert: readCertificate(cert),
    key: readSecretFile(key, 'the private key'),
    ...(clientCa !== undefined && { clientCa: readTrustedFile(clientCa, 'the authorities'), clients }),
  })
}

/** A certificate is public. */
function readCertificate(file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (error) {
    throw new LeaseholdError('INVALID', messageOf(error), { cause: error })
  }
}

function loggerTo(messages: CommandContext['messages']): Logger {
  return { debug: () => {}, info: () => {}, warn: (message) => messages.say(message) }
}

/** Whether the traffic can be read on the network. */
function isReadable(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  return protocol === 'http:' && !isLoopback(hostname)
}

function accessText({ named }: ServerFiles): string {
  return named.length === 0
    ? 'without tokens: everybody on this machine may do everything'
    : `with the tokens in ${named.join(' and ')}`
}
