import { readFileSync } from 'node:fs'
import { parse } from 'csv-parse/sync'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { readWorkbook } from '../../schemas/files/workbook.ts'
import { type Look, tabTo, unrestOf, usePage, violationsOf } from '../support/page/page.ts'
import { rowOf, workbookOf } from '../support/workbooks.ts'

const { environment, open } = usePage()

/** A window of test mode, whose contacts the sandbox answers. */
async function openTestMode (look: Look): Promise<Page> {
  const page = await open(look)
  await page.goto('/test/overview')
  return page
}

const press = async (page: Page, name: string) => {
  await tabTo(page, name)
  await page.keyboard.press('Enter')
}

/** Opens a section of the navigation, which is behind a button on a phone. */
async function openSection (page: Page, { width }: Look, section: string): Promise<void> {
  if (width === 390) await press(page, 'Menu')
  await press(page, section)
  await page.getByRole('heading', { level: 1, name: section }).waitFor()
}

async function chooseFile (page: Page, name: string, buffer: Buffer): Promise<void> {
  await tabTo(page, 'File')
  const opening = page.waitForEvent('filechooser')
  await page.keyboard.press('Enter')
  await (await opening).setFiles({ name, mimeType: 'application/octet-stream', buffer })
}

/** Follows a link to a file by the keyboard, and reads what was downloaded. */
async function download (page: Page, name: string) {
  await tabTo(page, name)
  const [file] = await Promise.all([
    page.waitForEvent('download'), page.keyboard.press('Enter'),
  ])
  return { name: file.suggestedFilename(), bytes: readFileSync(await file.path()) }
}

async function expectCleanLook (page: Page): Promise<void> {
  expect(await violationsOf(page)).toEqual([])
  expect((await unrestOf(page)).overflow).toBe(0)
}

/** Numbers of a test of its own, so that the cache has none of them. */
const rangeOf = (look: Look) => `+164674${LOOKS.findIndex(other => other === look)}`

const LOOKS = [
  { colorScheme: 'light', width: 1_280 }, { colorScheme: 'dark', width: 1_280 },
  { colorScheme: 'light', width: 390 }, { colorScheme: 'dark', width: 390 },
] as const

/** 250 numbers in the second sheet, of which one is not assigned and one is none. */
function spreadsheet (range: string): Buffer {
  const numbers = Array.from({ length: 248 }, (_, at) => `${range}${1_000 + at}`)
  const people = rowOf(1, 'name', 'phone') + [...numbers, `${range}0001`, 'call me']
    .map((number, at) => rowOf(at + 2, `Person ${at}`, number)).join('')
  return workbookOf({
    sheets: ['Notes', 'People'],
    rows: rowOf(1, 'note') + rowOf(2, 'x'),
    more: {
      'xl/worksheets/s1.xml': `<worksheet><sheetData>${people}</sheetData></worksheet>`,
    },
  })
}

it.each(LOOKS)('a spreadsheet is cleaned, $colorScheme, $width pixels wide', async look => {
  const page = await openTestMode(look)
  await openSection(page, look, 'Verify a file')
  await chooseFile(page, 'people.xlsx', spreadsheet(rangeOf(look)))
  await page.getByRole('combobox', { name: 'Sheet' }).waitFor()
  await tabTo(page, 'Sheet')
  await page.keyboard.type('People')
  const column = page.getByRole('combobox', { name: 'Column' })
  await expect.poll(() => column.locator('option:checked').textContent()).toBe('phone')
  await tabTo(page, 'Column')
  await page.keyboard.press('ArrowUp')
  await page.getByText(/^Column "name"/).waitFor()
  await page.keyboard.press('ArrowDown')
  await page.getByText('Column "phone": 249 of 250 cells look like phone numbers').waitFor()
  await expectCleanLook(page)

  await press(page, 'Show the price')
  await page.getByRole('row', { name: /^All 250/ }).waitFor()
  await press(page, 'Estimate the verdicts, free')
  const expected = page.getByRole('heading', { name: 'What to expect' })
  const running = page.getByText('of the sample have an answer')
  await expected.or(running).waitFor()
  while (await running.isVisible()) {
    await press(page, 'Estimate the verdicts, free')
    await expect.poll(() => page.locator('#working').isVisible()).toBe(false)
  }
  await page.getByRole('img', { name: /^Expected verdicts: Valid/ }).waitFor()
  await expectCleanLook(page)

  await press(page, 'Start the job')
  await page.getByRole('heading', { level: 1, name: 'people.xlsx' }).waitFor()
  await page.getByText('Completed', { exact: true }).waitFor()
  await page.getByRole('img', { name: 'Verdicts: Valid 99.2 %, Invalid 0.8 %.' }).first().waitFor()
  await page.getByRole('region', { name: 'Rows by country' }).waitFor()
  await expectCleanLook(page)

  const workbook = await download(page, 'Download Excel')
  expect(workbook.name).toBe('people.verified.xlsx')
  const cells: (readonly string[])[] = []
  const { sheets } = await readWorkbook(workbook.bytes, {
    sheet: undefined, maxInflatedBytes: 10_000_000, pause: async () => {},
  }, row => { cells.push(row.cells) })
  expect(sheets).toEqual(['Results', 'Summary'])
  expect(cells.map(([name]) => name)).toEqual(
    ['name', ...Array.from({ length: 250 }, (_, at) => `Person ${at}`)])
  const valid = await download(page, 'Valid only')
  expect(valid.name).toBe('people.verified.valid.csv')
  const kept = parse(valid.bytes, { bom: true, columns: true })
  expect(kept.length).toBe(248)
  const phone = `${rangeOf(look)}1000`
  expect(kept[0]).toMatchObject({ name: 'Person 0', phone, status: 'valid' })
  await page.context().close()
})

it('a list comes back with its delimiter and name', async () => {
  const page = await openTestMode({ colorScheme: 'light', width: 1_280 })
  await page.goto('/test/upload')
  await chooseFile(page, 'Käufer, 2026.csv', Buffer.from('name;phone\nMüller;+16467301000\n'))
  await expect.poll(() => page.getByRole('button', { name: 'Show the price' }).isEnabled())
    .toBe(true)
  await press(page, 'Show the price')
  await page.getByRole('heading', { name: /^At most/ }).waitFor()
  await press(page, 'Start the job')
  await page.getByText('Completed', { exact: true }).waitFor()
  const { name, bytes } = await download(page, 'With your columns')
  expect(name).toBe('Käufer, 2026.verified.csv')
  expect(bytes.toString()).toMatch(/^\ufeffname;phone;verified_phone;.*\r\nMüller;\+16467301000;/)
  await page.context().close()
})

it('nothing can be changed while a file is read and while its price is computed', async () => {
  const page = await openTestMode(LOOKS[0])
  await page.goto('/test/upload')
  const [file, service] = ['input[name=file]', 'select[name=service]'].map(one => page.locator(one))
  /** What can be reached while the service has not answered, after an attempt to change it. */
  const reachedDuring = async (request: string, act: () => Promise<void>) => {
    const [asked, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    await page.route(`**/upload/${request}?*`, async route => {
      asked.resolve()
      await held.promise
      await route.continue()
    })
    await act()
    await asked.promise
    await service?.focus()
    await page.keyboard.press('End')
    await file?.focus()
    const reached = await page.evaluate('document.activeElement.getAttribute("name")')
    held.resolve()
    await page.unrouteAll({ behavior: 'wait' })
    return reached
  }
  const chosen = () => chooseFile(page, 'a.csv', Buffer.from('phone\n+16467301000\n'))
  expect(await reachedDuring('preview', chosen)).toBeNull()
  await expect.poll(() => page.getByRole('button', { name: 'Show the price' }).isEnabled())
    .toBe(true)
  expect(await reachedDuring('quote', () => press(page, 'Show the price'))).toBeNull()
  await page.getByRole('heading', { name: /^At most/ }).waitFor()
  expect(await service?.inputValue()).toBe('phone-validation')
  await page.context().close()
})

it.each(LOOKS)('a running job is watched and cancelled, $colorScheme, $width pixels wide',
  async look => {
    const page = await openTestMode(look)
    // The checks of the last two are unavailable for 15 minutes.
    const ends = ['2000', '0001', '0005', '0006']
    const inputs = ['no number', ...ends.map(end => rangeOf(look) + end)]
    const label = `campaign ${look.colorScheme} ${look.width}`
    const { id } = await environment().test.createJob({
      service: 'phone-validation', inputs, metadata: { name: label },
    })
    await openSection(page, look, 'Jobs')
    await tabTo(page, 'Search')
    await page.keyboard.type(label)
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: label }).waitFor()
    expect(await page.getByRole('region', { name: 'Jobs' }).locator('tbody tr').count()).toBe(1)
    await expectCleanLook(page)
    await press(page, label)

    await page.getByText('The first 3 of 5 rows that are complete.').waitFor()
    await page.getByRole('progressbar', { name: `Progress of ${id}` }).waitFor()
    await page.getByRole('img', { name: /^Verdicts: Valid 20 %, Invalid 40 %/ }).waitFor()
    await expectCleanLook(page)
    await press(page, 'Cancel the job')
    await page.locator('.badge').getByText('Cancelled', { exact: true }).waitFor()
    await page.getByRole('link', { name: 'Download CSV' }).waitFor()
    await page.getByRole('img', { name: /^Verdicts: Valid 20 %, Invalid 40 %, Unknown 40 %/ })
      .first().waitFor()
    await expectCleanLook(page)
    await press(page, 'Unknown 2')
    const rows = page.getByRole('region', { name: 'Results' }).locator('tbody tr')
    await expect.poll(() => rows.count()).toBe(2)
    await page.context().close()
  })

it('a list of jobs that was loaded again follows those that run then', async () => {
  const page = await openTestMode(LOOKS[0])
  const client = environment().test
  const start = (end: string) => client.createJob({
    service: 'phone-validation', inputs: [`+1646748${end}`], metadata: { name: 'one of two' },
  })
  // Their checks are unavailable for 15 minutes.
  const first = await start('0005')
  await page.goto('/test/jobs?search=one+of+two')
  const states = page.getByRole('region', { name: 'Jobs' }).locator('tbody .badge')
  await expect.poll(() => states.count()).toBe(1)
  const second = await start('0006')
  await client.cancel(first.id)
  await expect.poll(() => states.count()).toBe(2)
  await client.cancel(second.id)
  await expect.poll(() => states.allTextContents()).toEqual(['Cancelled', 'Cancelled'])
  await page.context().close()
})
