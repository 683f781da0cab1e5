// Without the web font: a page asks nobody but its own server.
import theme from 'vitepress/theme-without-fonts'
// oxlint-disable-next-line import/no-unassigned-import -- Vite takes style sheets this way.
import './style.css'

export default theme
