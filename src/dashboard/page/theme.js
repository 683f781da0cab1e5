/**
 * Light, dark, or as the system has it. The choice is kept in this browser.
 * @module
 */

const themeName = 'leasehold-theme'
const themes = /** @type {const} */ (['auto', 'light', 'dark'])
/** @typedef {typeof themes[number]} Theme */

/** @type {Readonly<Record<Theme, string>>} */
const labels = { auto: 'Theme: as the system', light: 'Theme: light', dark: 'Theme: dark' }

/** @param {HTMLElement} button goes from one theme to the next */
export function startTheme(button) {
  let theme = keptTheme()
  const show = () => {
    if (theme === 'auto') delete document.documentElement.dataset['theme']
    else document.documentElement.dataset['theme'] = theme
    button.textContent = labels[theme]
  }
  button.addEventListener('click', () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length] ?? 'auto'
    if (theme === 'auto') localStorage.removeItem(themeName)
    else localStorage.setItem(themeName, theme)
    show()
  })
  show()
}

/** @returns {Theme} */
function keptTheme() {
  const kept = localStorage.getItem(themeName)
  return themes.find((theme) => theme === kept) ?? 'auto'
}
