/**
 * What is shown, in the part of the address that stays in the browser: `#tab=waits`, `#lock=KEY`, `#name=nightly&sort=age`. It can be kept
 * as a bookmark, sent to somebody, and goes back and forward.
 * @module
 */

/** @typedef {Readonly<Record<string, string>>} Place */

/** @returns {Place} */
export function place() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)))
}

/** @param {Place} next empty values are left out */
export function addressOf(next) {
  const fields = Object.entries(next).filter(([, value]) => value !== '')
  return `#${new URLSearchParams(fields)}`
}

/**
 * Shows another place, as a new entry of the browser's history.
 * @param {Place} next
 */
export function goTo(next) {
  location.hash = addressOf(next)
}

/**
 * The same place with other fields, such as while a filter is typed: no new entry of the browser's history.
 * @param {Place} next
 */
export function replacePlace(next) {
  history.replaceState(null, '', addressOf(next))
}

/** @param {string} key */
export function lockAddress(key) {
  return addressOf({ lock: key })
}
