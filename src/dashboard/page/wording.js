/**
 * The words of the page. No elements here: all of it can be tested without a browser.
 * @module
 */

/** @typedef {import('../documents.ts').OperatorsClaim & { readonly readAt: number }} Claim by the page's own clock */
/** @typedef {Omit<import('../documents.ts').OperatorsLock, 'holders' | 'waiters'> & { readonly holders: readonly Claim[], readonly waiters: readonly Claim[] }} Lock */
/** @typedef {{ readonly id: string, readonly host: string, readonly pid: number, readonly metadata?: Readonly<Record<string, unknown>> | undefined }} Runner */
/** @typedef {'good' | 'warn' | 'bad' | 'plain'} Tone */

/**
 * Characters that could steer how the text around them is shown: control, invisible and direction-changing ones. And the backslash
 * of what would look like one of them written out.
 */
const steering = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]|\\(?=u\{)/gu

/** The generated id of a runner without a name. */
const madeUpId = /^runner_\d+_/

/** Below this part of its ttl a lease is near its end: a healthy holder has renewed long before. */
const nearEndPart = 0.25

/**
 * The text with every steering character written out, so that two names that differ also look different.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(steering, (found) => `\\u{${(found.codePointAt(0) ?? 0).toString(16)}}`)
}

/**
 * `0 s`, `59 s`, `4 m 05 s`, `2 h 03 m`, `5 d 07 h`: the two units that matter, in whole seconds as they pass every second.
 * @param {number} milliseconds
 */
export function durationText(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  const [minutes, hours, days] = [60, 3600, 86_400].map((unit) => Math.floor(seconds / unit))
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${minutes} m ${twoDigits(seconds % 60)} s`
  if (seconds < 86_400) return `${hours} h ${twoDigits((minutes ?? 0) % 60)} m`
  return `${days} d ${twoDigits((hours ?? 0) % 24)} h`
}

/**
 * How long was waited: below ten seconds more exactly.
 * @param {number} milliseconds
 */
export function waitText(milliseconds) {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`
  return milliseconds < 10_000 ? `${Math.round(milliseconds / 100) / 10} s` : durationText(milliseconds)
}

/**
 * A number with its noun.
 * @param {number} count
 * @param {string} singular
 * @param {string} [plural]
 */
export function counted(count, singular, plural = `${singular}s`) {
  return `${count} ${count === 1 ? singular : plural}`
}

/**
 * The runner in few words: the name it was given, else the command it runs, else its process.
 * @param {Runner} runner
 */
export function runnerName({ id, host, pid, metadata }) {
  const user = textOf(metadata?.['user'])
  const command = textOf(metadata?.['command'])
  if (command !== undefined) return visible(user === undefined ? command : `${user}: ${command}`)
  if (!madeUpId.test(id)) return visible(id)
  return visible(`${user ?? 'process'} ${pid} on ${host}`)
}

/**
 * What else tells the runner from others: its host and process, if its name does not say so already.
 * @param {Runner} runner
 */
export function runnerPlace(runner) {
  const { id, host, pid, metadata } = runner
  const isProcess = madeUpId.test(id) && textOf(metadata?.['command']) === undefined
  return visible(isProcess ? id : `${host}, pid ${pid}`)
}

/**
 * How a lock stands, for its badge.
 * @param {Pick<Lock, 'holders' | 'held' | 'waiting'>} lock
 * @returns {{ text: string, tone: Tone }}
 */
export function lockState({ holders, held, waiting }) {
  const [first] = holders
  if (first === undefined) return { text: 'free', tone: waiting > 0 ? 'warn' : 'plain' }
  if (holders.some(({ expired }) => expired)) return { text: 'expired', tone: 'bad' }
  if (holders.some(({ leaving }) => leaving !== undefined)) return { text: 'leaving', tone: 'warn' }
  if (first.mode === 'exclusive') return { text: held > 1 ? `${held} ranges` : 'held', tone: 'good' }
  const text = first.limit === undefined ? `shared by ${held}` : `${held} of ${first.limit} permits`
  return { text, tone: 'good' }
}

/**
 * How much of a lease is left, after some time.
 * @param {Pick<Claim, 'remainingMs' | 'ttlMs' | 'expired'>} claim
 * @param {number} passedMs since the claim was read
 * @returns {{ part: number, text: string, tone: Tone }}
 */
export function leaseLeft({ remainingMs, ttlMs, expired }, passedMs) {
  const leftMs = remainingMs - passedMs
  if (expired || leftMs <= 0) return { part: 0, text: 'over', tone: 'bad' }
  const part = Math.min(1, leftMs / ttlMs)
  return { part, text: `${durationText(leftMs)} left`, tone: part < nearEndPart ? 'warn' : 'good' }
}

/**
 * The command that says more about a lock; undefined for what the command line has no name for.
 * @param {Pick<Lock, 'key' | 'namespace' | 'scope'>} lock
 */
export function explainCommand({ key, namespace, scope }) {
  if (key !== `${namespace}/named:${scope}` || visible(scope) !== scope) return undefined
  return `leasehold explain --namespace ${shellWord(namespace)} ${scope.startsWith('-') ? '-- ' : ''}${shellWord(scope)}`
}

/**
 * A value of metadata in one line.
 * @param {unknown} value
 */
export function metadataText(value) {
  return visible(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))
}

/**
 * The time of day, with the day if it is not today.
 * @param {string} iso
 * @param {Date} [now]
 */
export function timeText(iso, now = new Date()) {
  const time = new Date(iso)
  const clock = time.toLocaleTimeString()
  return time.toDateString() === now.toDateString() ? clock : `${time.toLocaleDateString()} ${clock}`
}

/** @param {string} text */
function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** @param {number} number */
function twoDigits(number) {
  return String(number).padStart(2, '0')
}

/** @param {unknown} value */
function textOf(value) {
  return typeof value === 'string' && value !== '' ? value : undefined
}
