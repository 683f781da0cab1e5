/** What tells one store from another behind a `?`. All else there may be a secret, or is about the connection. */
export const identifyingParameters: ReadonlySet<string> = new Set([
  'api',
  'collection',
  'database',
  'db',
  'dbname',
  'host',
  'port',
  'schema',
])

const hidden = '***'

/** Where the next URL of a list begins, as in a quorum's. */
const betweenUrls = /,(?=(?:sqlite|memory):|[a-z][a-z0-9+.-]*:\/\/)/i
/** A URL in a sentence: what comes before the last `@` of it may be a name and a password, and so may what follows a `?`. */
const urlInText = /\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>]+/gi
const fileUrl = /^(?:sqlite|memory|file):/i

/**
 * A URL without its secrets, to be shown: who logs in, and the value of each parameter that may be one, is written as `***`.
 * Takes whatever somebody gave for a URL: mistyped schemes, slashes in passwords, no scheme at all.
 */
export function redactedUrl(url: string): string {
  return url.split(betweenUrls).map(redactedOne).join(',')
}

/** A text with every URL in it redacted. */
export function redactedText(text: string): string {
  return text.replace(urlInText, redactedUrl)
}

function redactedOne(url: string): string {
  if (fileUrl.test(url)) return url
  const [, address = '', query] = /^([^?]*)(?:\?(.*))?$/s.exec(url) ?? []
  // Without the slashes, what looks like a scheme may be the name of a user.
  const [, scheme = '', login, place = ''] = /^((?:[a-z][a-z0-9+.-]*:)+\/\/)?(?:(.*)@)?([^@]*)$/is.exec(address) ?? []
  const shown = `${scheme}${login === undefined ? '' : `${hidden}@`}${place}`
  if (query === undefined) return shown
  // A ? in a password that was not escaped: all of the rest may be a part of it.
  if (query.includes('@')) return `${scheme}${hidden}@${query.slice(query.lastIndexOf('@') + 1)}`
  return `${shown}?${query.split('&').map(redactedParameter).join('&')}`
}

function redactedParameter(parameter: string): string {
  const [name = '', value] = parameter.split(/=(.*)/s)
  return value === undefined || identifyingParameters.has(name) ? parameter : `${name}=${hidden}`
}
