import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll } from 'vitest'
import { openBrowser } from './browser.ts'
import { signIn, startPageEnvironment } from './page.ts'

export type Look = { readonly colorScheme: 'light' | 'dark', readonly width: number }

/** All services, the page and a browser for the tests of a file, from their start to their end. */
export function usePage () {
  let environment: Awaited<ReturnType<typeof startPageEnvironment>>
  let browser: Browser
  beforeAll(async () => {
    [environment, browser] = await Promise.all([startPageEnvironment(), openBrowser()])
  })
  afterAll(async () => {
    await browser?.close()
    await environment?.stop()
  })
  return {
    environment: () => environment,
    /** A signed-in window of the demo organization, in colors and a width. */
    open: async ({ colorScheme, width }: Look): Promise<Page> => {
      const context = await browser.newContext({
        baseURL: environment.pageUrl, colorScheme, viewport: { width, height: 800 },
      })
      const page = await context.newPage()
      page.on('filechooser', () => {})
      await signIn(page, await environment.linkFor({ org: environment.demo.orgId }))
      return page
    },
  }
}
