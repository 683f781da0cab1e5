import address from './page/address.js.generated.ts'
import advice from './page/advice.js.generated.ts'
import attentionView from './page/attention-view.js.generated.ts'
import auditView from './page/audit-view.js.generated.ts'
import chart from './page/chart.js.generated.ts'
import chartsView from './page/charts-view.js.generated.ts'
import element from './page/element.js.generated.ts'
import eventStream from './page/event-stream.js.generated.ts'
import eventsView from './page/events-view.js.generated.ts'
import evictDialog from './page/evict-dialog.js.generated.ts'
import graphLayout from './page/graph-layout.js.generated.ts'
import keyedChildren from './page/keyed-children.js.generated.ts'
import liveTimes from './page/live-times.js.generated.ts'
import lockDetails from './page/lock-details.js.generated.ts'
import lockView from './page/lock-view.js.generated.ts'
import locksView from './page/locks-view.js.generated.ts'
import main from './page/main.js.generated.ts'
import queueGroups from './page/queue-groups.js.generated.ts'
import ratesView from './page/rates-view.js.generated.ts'
import server from './page/server.js.generated.ts'
import tabs from './page/tabs.js.generated.ts'
import theme from './page/theme.js.generated.ts'
import virtualRows from './page/virtual-rows.js.generated.ts'
import waitsView from './page/waits-view.js.generated.ts'
import wording from './page/wording.js.generated.ts'
import icon from './page/icon.svg.generated.ts'
import index from './page/index.html.generated.ts'
import style from './page/style.css.generated.ts'
import dagre from './libraries/dagre.js.generated.ts'

/** One file of the dashboard, as a browser gets it. */
export interface PageFile {
  readonly path: string
  readonly type: string
  readonly text: string
}

/** The scripts by name. The page loads main.js, which loads the others. */
const scripts = {
  address,
  advice,
  'attention-view': attentionView,
  'audit-view': auditView,
  chart,
  'charts-view': chartsView,
  element,
  'event-stream': eventStream,
  'events-view': eventsView,
  'evict-dialog': evictDialog,
  'graph-layout': graphLayout,
  'keyed-children': keyedChildren,
  'live-times': liveTimes,
  'lock-details': lockDetails,
  'lock-view': lockView,
  'locks-view': locksView,
  main,
  'queue-groups': queueGroups,
  'rates-view': ratesView,
  server,
  tabs,
  theme,
  'virtual-rows': virtualRows,
  'waits-view': waitsView,
  wording,
}

/** All files of the dashboard. They are in the package as text, so that no file is read at run time. */
export const pageFiles: readonly PageFile[] = [
  { path: '/', type: 'text/html; charset=utf-8', text: index },
  { path: '/dashboard/style.css', type: 'text/css; charset=utf-8', text: style },
  { path: '/dashboard/icon.svg', type: 'image/svg+xml', text: icon },
  ...Object.entries({ ...scripts, dagre }).map(([name, text]) => ({
    path: `/dashboard/${name}.js`,
    type: 'text/javascript; charset=utf-8',
    text,
  })),
]
