import { describe, expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openBrowser } from '../support/page/browser.ts'
import { unrestOf, violationsOf } from '../support/page/page.ts'
import { startEnvironment } from '../support/stacks/environment.ts'

const environment = closeAfterAll(await startEnvironment())
const browser = closeAfterAll(await openBrowser())
const docs = new URL('/docs', environment.baseUrl).href

describe('the page of the reference', () => {
  it.each([
    [1_280, 'light'], [1_280, 'dark'], [360, 'light'], [360, 'dark'],
  ] as const)('can be read without a key, %d pixels wide, %s', async (width, colorScheme) => {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme })
    const faults: string[] = []
    page.on('console', message => { faults.push(message.text()) })
    page.on('pageerror', error => { faults.push(String(error)) })
    await page.goto(docs)
    await page.locator('summary').first().click()
    expect(await violationsOf(page)).toEqual([])
    expect((await unrestOf(page)).overflow).toBe(0)
    await page.getByRole('searchbox').fill('insufficient_balance')
    expect(await page.locator('nav a:visible').allInnerTexts())
      .toEqual(expect.arrayContaining([expect.stringContaining('Create and approve a job')]))
    await page.getByRole('searchbox').fill('no such word')
    expect(await page.getByRole('status').innerText()).toBe('Nothing found')
    expect(faults.filter(fault => !fault.includes('favicon'))).toEqual([])
    await page.close()
  })

  it('shows one language at a time, the same everywhere', async () => {
    const page = await browser.newPage()
    await page.goto(docs)
    const shown = (id: string) => page.locator(`#${id} .choice pre:visible`).allInnerTexts()
    expect(await shown('getJob')).toEqual([expect.stringMatching(/^curl "\$BASE\/jobs\/\$JOB"/)])
    await page.locator('#createJob').getByText('TypeScript').click()
    expect(await shown('getJob')).toEqual([expect.stringMatching(/^const job = await client/)])
    await page.close()
  })
})
