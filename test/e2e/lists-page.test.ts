import { expect, it } from 'vitest'
import { tabTo, unrestOf, usePage, violationsOf } from '../support/page/page.ts'

const { environment, open } = usePage()

it.each([
  ['light', 1_280], ['dark', 1_280], ['light', 390], ['dark', 390],
] as const)('a domain is suppressed with the keyboard alone, %s, %d pixels wide',
  async (colorScheme, width) => {
    const page = await open({ colorScheme, width })
    const domain = `${colorScheme}-${width}.example.org`
    if (width === 390) {
      await tabTo(page, 'Menu')
      await page.keyboard.press('Enter')
    }
    await tabTo(page, 'Lists')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Lists' }).waitFor()
    expect(await violationsOf(page)).toEqual([])
    expect(await unrestOf(page)).toEqual({ overflow: 0, shift: 0 })

    // A slip is named, and what was written stays.
    const entries = page.getByRole('textbox', { name: 'Entries, one a line' })
    await tabTo(page, 'Entries, one a line')
    await page.keyboard.type(`${domain}\nno entry`)
    await tabTo(page, 'Change the lists')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('"no entry" is no entry').waitFor()
    expect(await violationsOf(page)).toEqual([])
    expect(await entries.inputValue()).toBe(`${domain}\nno entry`)
    expect((await environment().live.lookUpContacts({ contacts: [domain] }))[0]?.action).toBe(null)

    await tabTo(page, 'Entries, one a line')
    await page.keyboard.press('Control+End')
    for (let typed = 0; typed < '\nno entry'.length; typed++) await page.keyboard.press('Backspace')
    await tabTo(page, 'Change the lists')
    await page.keyboard.press('Enter')
    await page.getByText('The lists are changed.').waitFor()

    await tabTo(page, 'Address, domain, mail server or number')
    await page.keyboard.type(`jane@${domain}`)
    await page.keyboard.press('Enter')
    const answer = page.locator('#answer')
    await answer.getByText('Suppress', { exact: true }).first().waitFor()
    expect(await violationsOf(page)).toEqual([])
    expect(page.url()).not.toContain('jane')
    const { id } = await environment().test.createJob({
      service: 'email-validation', inputs: [`jane@${domain}`, 'joe@other.example.org'],
    })
    const job = await environment().test.waitForEnd(id)
    expect(job.reasons?.['suppressed']).toBe(1)

    // Taken back from the answer of a look-up.
    await tabTo(page, 'Address, domain, mail server or number')
    await page.keyboard.press('Control+A')
    await page.keyboard.type(domain)
    await page.keyboard.press('Enter')
    await answer.getByText(domain, { exact: true }).waitFor()
    await tabTo(page, 'Remove')
    await page.keyboard.press('Enter')
    await page.getByText('The lists are changed.').waitFor()
    expect((await environment().live.lookUpContacts({ contacts: [domain] }))[0]?.action).toBe(null)
    await page.context().close()
  })

it('a file of entries is uploaded with the keyboard alone, and its slips are named', async () => {
  const page = await open({ colorScheme: 'light', width: 1_280 })
  await page.goto('/live/lists')
  const upload = async (text: string) => {
    await tabTo(page, 'CSV file')
    const opening = page.waitForEvent('filechooser')
    await page.keyboard.press('Enter')
    await (await opening).setFiles({
      name: 'entries.csv', mimeType: 'text/csv', buffer: Buffer.from(text),
    })
    await tabTo(page, 'Upload')
    await page.keyboard.press('Enter')
  }
  await upload('entry,list\nfile.example.org,suppress\nno entry,allow\nb.example,deny\n')
  await page.getByRole('alert').getByText('Line 4: list is "deny"').waitFor()
  expect(await violationsOf(page)).toEqual([])
  await upload('entry,list\nfile.example.org,suppress\n+4930*,block\n')
  await page.getByText('The lists are changed.').waitFor()
  const contacts = ['a@file.example.org', '+493012345678']
  expect((await environment().live.lookUpContacts({ contacts })).map(({ action }) => action))
    .toEqual(['suppress', 'block'])
  const counts = await page.locator('#counts .amount').allTextContents()
  expect(counts).toEqual(['1', '1', '0'])
  await page.context().close()
})
