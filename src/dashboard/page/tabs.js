/**
 * Tabs by mouse and by keyboard, as the ARIA authoring practices have them.
 * @module
 */
import { byId } from './element.js'

/**
 * @param {HTMLElement} list
 * @param {(id: string) => void} chosen called with the id of the tab
 */
export function startTabs(list, chosen) {
  const tabs = /** @type {HTMLElement[]} */ ([...list.querySelectorAll('[role=tab]')])
  /** @param {HTMLElement} tab */
  const choose = (tab) => {
    for (const each of tabs) {
      const isChosen = each === tab
      each.setAttribute('aria-selected', String(isChosen))
      each.tabIndex = isChosen ? 0 : -1
      byId(each.getAttribute('aria-controls') ?? '').hidden = !isChosen
    }
    chosen(tab.id)
  }
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
