/** What axe-core finds wrong with a page as it is shown now. */
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'

const source = readFileSync('node_modules/axe-core/axe.min.js', 'utf8')

interface AxeResults {
  readonly violations: readonly {
    readonly id: string
    readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[]
  }[]
}

/** A line for each element that breaks a rule. The policy of the page does not hold for what a debugger runs in it. */
export async function accessibilityFaults(page: Page): Promise<readonly string[]> {
  await page.evaluate(source)
  const { violations } = (await page.evaluate('axe.run()')) as AxeResults
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`),
  )
}
