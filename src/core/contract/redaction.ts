/** The parameters of a URL that tell one store from another. All others may be secrets, or are about the connection. */
export const identifyingParameters: ReadonlySet<string> = new Set([
  'api',
  'collection',
  'database',
  'db',
  'dbname',
  'endpoint',
  'host',
  'pathStyle',
  'port',
  'prefix',
  'region',
  'schema',
  'table',
])

const hidden = '***'

/** Where the next URL of a list begins, as in the URL of a quorum. */
const betweenUrls = /,(?=(?:sqlite|memory):|[a-z][a-z0-9+.-]*:\/\/)/i
/** A URL in a sentence, with all that may be a login (up to its last `@`) or a secret parameter (after a `?`). */
const urlInText = /\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>]+/gi
const fileUrl = /^(?:sqlite|memory|file):/i

/**
 * A URL without its secrets, to be shown: the login, and the value of each parameter that may be a secret, become `***`.
 * Takes any text that was given for a URL: mistyped schemes, slashes in passwords, no scheme at all.
 */
export function redactedUrl(url: string): string {
  return url.split(betweenUrls).map(withoutSecrets).join(',')
}

/** A text with every URL in it redacted. */
export function redactedText(text: string): string {
  return text.replace(urlInText, redactedUrl)
}

function withoutSecrets(url: string): string {
  if (fileUrl.test(url)) return url
  const [, address = '', query] = /^([^?]*)(?:\?(.*))?$/s.exec(url) ?? []
  // If no slashes follow, what looks like a scheme may be the name of a user.
  const [, scheme = '', login, place = ''] = /^((?:[a-z][a-z0-9+.-]*:)+\/\/)?(?:(.*)@)?([^@]*)$/is.exec(address) ?? []
  const shown = `${scheme}${login === undefined ? '' : `${hidden}@`}${place}`
  if (query === undefined) return shown
  // An unescaped ? in a password: all up to the last @ may be part of it.
  if (query.includes('@')) return `${scheme}${hidden}@${query.slice(query.lastIndexOf('@') + 1)}`
  return `${shown}?${query.split('&').map(redactedParameter).join('&')}`
}

function redactedParameter(parameter: string): string {
  const [name = '', value] = parameter.split(/=(.*)/s)
  if (value === undefined) return parameter
  // The URL in a parameter may have a login, too.
  return identifyingParameters.has(name) && !/%40/.test(value) ? parameter : `${name}=${hidden}`
}
