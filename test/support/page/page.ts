import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, Page, Response } from 'playwright-core'
import { afterAll, beforeAll } from 'vitest'
import { SERVICES } from '../../../deploy/local/launcher/layout.ts'
import { createDemo } from '../../../services/admin/demo.ts'
import { createClient } from '../../../services/client/client.ts'
import { openBrowser } from './browser.ts'
import { cancelOpenJobs } from '../stacks/environment.ts'
import { startAlone } from '../stacks/services.ts'
import { testStack } from '../stacks/stack.ts'
import { openWorkspaceCommands } from '../workspace.ts'

/** All services and the page on the suite's stack, with an organization of its own. */
export async function startPageEnvironment (overrides: Readonly<Record<string, string>> = {}) {
  const { env, servicesDir } = testStack()
  const services = await startAlone({ env, stages: SERVICES, overrides, servicesDir })
  const demo = await createDemo(env)
  const { workspace } = openWorkspaceCommands({ ...env, PAGE_URL: services.pageUrl })
  const clientOf = (mode: 'live' | 'test') =>
    createClient({ baseUrl: services.baseUrl, apiKey: demo.keys[mode] })
  return {
    env,
    demo,
    pageUrl: services.pageUrl,
    baseUrl: services.baseUrl,
    live: clientOf('live'),
    test: clientOf('test'),
    /** A link to sign in as an organization, or as an operator. */
    linkFor: async (orgId?: string) => {
      const subject = orgId === undefined ? ['--operator'] : ['--org', orgId]
      return (await workspace<{ readonly url: string }>({}, 'sign-in', ...subject)).url
    },
    stop: async () => {
      await cancelOpenJobs(services.baseUrl, demo.keys)
      await services.stop()
    },
  }
}

/** Opens a link to sign in and presses its button. */
export async function signIn (page: Page, link: string): Promise<void> {
  await page.goto(link)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL(url => !url.pathname.startsWith('/sign-in'))
}

const MAX_STOPS = 80

/** Moves to the element of that name by the Tab key, as people without a mouse do. */
export async function tabTo (page: Page, name: string): Promise<void> {
  const passed: string[] = []
  for (let stop = 0; stop < MAX_STOPS; stop++) {
    await page.keyboard.press('Tab')
    const text = await page.evaluate(nameOfFocus)
    if (text === name) return
    passed.push(text)
  }
  throw new Error(`"${name}" is not reached by Tab; these are: ${passed.join(', ')}`)
}

/** Runs in the browser: what the focused element is called. */
function nameOfFocus (): string {
  type Focused = {
    readonly textContent: string
    readonly labels?: Iterable<{ readonly childNodes: Iterable<{ textContent: string }> }>
    readonly getAttribute: (name: string) => string | null
  }
  const { document } = globalThis as unknown as {
    readonly document: { readonly activeElement: Focused }
  }
  const element = document.activeElement
  const [label] = [...element.labels ?? []]
  // A choice in its label is not part of its name.
  const labelled = label && [...label.childNodes].filter(part => part !== element)
    .map(({ textContent }) => textContent).join(' ')
  const text = element.getAttribute('aria-label') ?? labelled ?? element.textContent
  return text.trim().replace(/\s+/g, ' ')
}

/** Every answer that a browser got, with its content as far as it can be read. */
export function recordAnswers (context: BrowserContext) {
  const reading: Promise<{ readonly url: string, readonly content: string }>[] = []
  const read = async (response: Response) => {
    const headers = JSON.stringify(await response.allHeaders().catch(() => ({})))
    // Redirects, downloads and aborted streams have no content to read.
    const body = await response.text().catch(() => '')
    return { url: `${response.request().method()} ${response.url()}`, content: headers + body }
  }
  context.on('response', response => { reading.push(read(response)) })
  return { all: async () => await Promise.all(reading) }
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** What axe finds wrong with a page: rule and elements. */
export async function violationsOf (page: Page): Promise<readonly string[]> {
  await page.evaluate(axe)
  return await page.evaluate(async () => {
    type Violation = { readonly id: string, readonly nodes: readonly { html: string }[] }
    const { axe: library } = globalThis as unknown as {
      readonly axe: { readonly run: () => Promise<{ violations: readonly Violation[] }> }
    }
    const { violations } = await library.run()
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(node => node.html).join(' | ')}`)
  })
}

/** How far a page is wider than its window, and how much of it moved while it was built. */
export async function unrestOf (page: Page) {
  return await page.evaluate(async () => {
    type Shift = { readonly value: number }
    const browser = globalThis as unknown as {
      readonly document: { readonly documentElement: { readonly scrollWidth: number } }
      readonly innerWidth: number
      readonly PerformanceObserver: new (
        heard: (list: { readonly getEntries: () => readonly Shift[] }) => void
      ) => { readonly observe: (options: object) => void }
    }
    const shift = await new Promise<number>(resolve => {
      new browser.PerformanceObserver(list =>
        resolve(list.getEntries().reduce((sum, { value }) => sum + value, 0)))
        .observe({ type: 'layout-shift', buffered: true })
      // No event when nothing moved.
      setTimeout(() => resolve(0), 100)
    })
    const { scrollWidth } = browser.document.documentElement
    return { overflow: Math.max(0, scrollWidth - browser.innerWidth), shift }
  })
}

/** A file of 604 numbers, four of which take two seconds each, with bad ones and a formula. */
export const PEOPLE = [
  'name;phone;note',
  ...Array.from({ length: 600 }, (_, at) => `Person ${at};+1646730${1000 + at};-`),
  ...Array.from({ length: 4 }, (_, at) => `Slow ${at};+164675${at}0004;-`),
  'Nobody;call me;-',
  '"Sum";"=1+1";-',
  'Twice;+16467301000;-',
].join('\r\n')

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
      await signIn(page, await environment.linkFor(environment.demo.orgId))
      return page
    },
  }
}
