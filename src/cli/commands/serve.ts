import { readFileSync } from 'node:fs'
import { messageOf, plainMessageOf } from '../../core/errors.ts'
import { LeaseholdError, type Logger } from '../../index.ts'
import { isLoopback } from '../../server/auth/origins.ts'
import type { LeaseholdServer, TlsOptions, TokenOptions } from '../../server/index.ts'
import { numberOption, type ParsedArguments } from '../arguments.ts'
import type { Command, CommandContext } from '../command.ts'
import { signalExitCode, UsageError } from '../exit-codes.ts'
import { Interruption, type EndingSignal } from '../interruption.ts'
import { chooseStore, describeStore, storeUrlHelp } from '../stores/store.ts'
import { quoted } from '../output/terminal-text.ts'
import { readTokensFile } from '../stores/tokens-file.ts'

const help = `Usage: leasehold serve [options]

Serves a store over HTTP, for clients that cannot or may not reach it directly: they use --store http://HOST:PORT. The
same address shows a dashboard in a browser: locks, queues, who waits for whom, evictions. SIGTERM or SIGINT ends the
server once the calls under way are answered. SIGHUP reloads the tokens.

Options:
${storeUrlHelp}
  --host HOST         where to listen; default 127.0.0.1. Any other address needs --tokens
  --port NUMBER       default 7411; 0: any free port
  --tokens FILE       who may do what: a JSON file that only you can read; default $LEASEHOLD_TOKENS
                      [{ "name": "ci", "token": "…", "namespaces": ["builds"], "rights": ["lock", "read"] }]
  --cors-origins URLS origins whose pages may call from a browser: https://app.example,https://other.example
  --tls-cert FILE     the certificate and its chain, PEM
  --tls-key FILE      the private key, PEM

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
    'cors-origins': { type: 'string' },
    'tls-cert': { type: 'string' },
    'tls-key': { type: 'string' },
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
  const interruption = new Interruption()
  try {
    let server: LeaseholdServer | undefined
    // Listen for signals first: a store may take long to open.
    const { first, second } = endings(interruption, () => server && reloadTokens(server, tokensFile, messages))
    const abandoned = second.then((signal) => signalExitCode(signal))
    const started = await Promise.race([start(given, url, tokensFile, loggerTo(messages)), abandoned])
    if (typeof started === 'number') return started
    server = started
    messages.say(`serving ${describeStore(url)} on ${server.url}, ${accessText(tokensFile)}`)
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
  tokensFile: string | undefined,
  logger: Logger,
): Promise<LeaseholdServer> {
  const host = given.texts.get('host')
  const port = numberOption(given, 'port', { from: 0, to: 65_535 })
  const tls = tlsOf(given)
  const corsOrigins = given.texts.get('cors-origins')?.split(',')
  const tokens = tokensFile === undefined ? undefined : readTokensFile(tokensFile)
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

/** Reloads the tokens. If the file is invalid, the server keeps the tokens it has. */
function reloadTokens(server: LeaseholdServer, file: string | undefined, messages: CommandContext['messages']): void {
  if (file === undefined) return messages.say('there are no tokens to reload')
  try {
    const tokens: readonly TokenOptions[] = readTokensFile(file)
    server.replaceTokens(tokens)
    messages.say(tokens.length === 1 ? '1 token reloaded' : `${tokens.length} tokens reloaded`)
  } catch (error) {
    messages.say(`the tokens stay as they were: ${plainMessageOf(error)}`)
  }
}

function tlsOf(given: ParsedArguments): TlsOptions | undefined {
  const cert = given.texts.get('tls-cert')
  const key = given.texts.get('tls-key')
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined || key === undefined) throw new UsageError('--tls-cert and --tls-key go together.')
  return { cert: readPem(cert), key: readPem(key) }
}

function readPem(file: string): Buffer {
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

function accessText(tokensFile: string | undefined): string {
  return tokensFile === undefined
    ? 'without tokens: everybody on this machine may do everything'
    : `with the tokens in ${tokensFile}`
}
