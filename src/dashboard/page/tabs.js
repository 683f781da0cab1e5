/**
 * Tabs by mouse and by keyboard, as the ARIA authoring practices have them.
 * @module
 */
import { byId } from './element.js'

/**
 * @param {HTMLElement} list
 * @param {(name: string) => void} chosen called with the name of the tab: `locks` for the tab `locks-tab`
 */
export function startTabs(list, chosen) {
  const tabs = /** @type {HTMLElement[]} */ ([...list.querySelectorAll('[role=tab]')])
  /** @param {HTMLElement} tab */
  const choose = (tab) => chosen(nameOf(tab))
  for (const [index, tab] of tabs.entries()) {
    tab.addEventListener('click', () => choose(tab))
    tab.addEventListener('keydown', (event) => {
      const next = placeAfter(event.key, index, tabs.length)
      const target = next === undefined ? undefined : tabs[next]
      if (target === undefined) return
      event.preventDefault()
      target.focus()
      choose(target)
    })
  }
  return {
    /** @param {string} name of the tab to show; the first if there is none of that name */
    show(name) {
      const shown = tabs.find((tab) => nameOf(tab) === name) ?? tabs[0]
      for (const tab of tabs) {
        const isShown = tab === shown
        tab.setAttribute('aria-selected', String(isShown))
        tab.tabIndex = isShown ? 0 : -1
        byId(tab.getAttribute('aria-controls') ?? '').hidden = !isShown
      }
    },
  }
}

/** @param {HTMLElement} tab */
function nameOf({ id }) {
  return id.replace(/-tab$/, '')
}

/**
 * @param {string} key
 * @param {number} index
 * @param {number} count
 */
function placeAfter(key, index, count) {
  if (key === 'ArrowRight') return (index + 1) % count
  if (key === 'ArrowLeft') return (index + count - 1) % count
  if (key === 'Home') return 0
  if (key === 'End') return count - 1
  return undefined
}
