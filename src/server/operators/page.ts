import { pageFiles } from '../../dashboard/page-files.ts'
import { fixed, type Route } from '../contract/call.ts'

/** Nothing but our own files, no inline script or style, no frame around the page, no form that leads elsewhere. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const headers = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  // Another version of the server has other files under the same names.
  'cache-control': 'no-cache',
}

/** The dashboard's files. Anybody may have them: they hold no data. */
export function pageRoutes(): readonly Route[] {
  return pageFiles.map(({ path, type, text }) => {
    const answer = fixed({ status: 200, headers: { ...headers, 'content-type': type }, body: text })
    const summary = 'A file of the dashboard.'
    return { method: 'GET', path, right: 'anybody', summary, documented: false, handle: () => answer }
  })
}
