/** The library for layouts, as the server gives it to the page: see scripts/embed.mjs. */
export { Graph, layout } from '@dagrejs/dagre'
