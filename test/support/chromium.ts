/** A real browser for tests, with a profile of its own that is gone with it. */
import { rmSync } from 'node:fs'
import { chromium, type BrowserContext, type Page } from 'playwright-core'
import { needProgram } from './debian.ts'
import { makeFolder } from './scratch-folder.ts'

const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** How long a page may take to show what it should. */
const shownWithinMs = 30_000

/** A page, and what is wrong with it: errors of the console, exceptions, dialogs, requests that leave its origin. */
export interface WatchedPage {
  readonly page: Page
  readonly complaints: string[]
}

export class Chromium {
  readonly #context: BrowserContext
  readonly #profile: string

  private constructor(context: BrowserContext, profile: string) {
    this.#context = context
    this.#profile = profile
  }

  static async start(): Promise<Chromium> {
    const executablePath = needProgram('chromium', ['chromium'])
    const profile = makeFolder('chromium')
    const viewport = { width: 1280, height: 900 }
    // Every frame is drawn by the processor: bars that shrink smoothly took as much of it as the rest.
    const calm = { reducedMotion: 'reduce', handleSIGTERM: false, handleSIGHUP: false } as const
    const options = { executablePath, args: flags, viewport, ...calm }
    return new Chromium(await chromium.launchPersistentContext(profile, options), profile)
  }

  /** Opens an address in a new page. */
  async open(address: string): Promise<WatchedPage> {
    const page = await this.#context.newPage()
    page.setDefaultTimeout(shownWithinMs)
    const complaints: string[] = []
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(`console: ${message.text()}`)
    })
    page.on('pageerror', (error) => complaints.push(`exception: ${error.message}`))
    page.on('dialog', (dialog) => {
      complaints.push(`dialog: ${dialog.message()}`)
      void dialog.dismiss()
    })
    page.on('request', (request) => {
      if (new URL(request.url()).origin !== new URL(address).origin) complaints.push(`request: ${request.url()}`)
    })
    await page.goto(address)
    return { page, complaints }
  }

  /** Closes all pages, so that the next test begins with nothing. */
  async closePages(): Promise<void> {
    const pages = this.#context.pages()
    // A browser without a page may end.
    await this.#context.newPage()
    await Promise.all(pages.map((page) => page.close()))
  }

  async stop(): Promise<void> {
    await this.#context.close()
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 5 })
  }
}
