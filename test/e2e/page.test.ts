import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Locator, Page } from 'playwright-core'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createClient } from '../../services/client/client.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { STAGES } from '../../services/topology.ts'
import { openBrowser } from '../support/page/browser.ts'
import { createOrganizationWith } from '../support/organizations.ts'
import {
  PEOPLE, recordAnswers, signIn, startPageEnvironment, tabTo, unrestOf, violationsOf,
} from '../support/page/page.ts'
import { rowOf, workbookOf } from '../support/workbooks.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'

const SECRET = /vj_(?:live|test)_[0-9A-Za-z]{36}|whsec_[A-Za-z0-9+/]{43}=/g

// Live numbers are answered by the sandbox, so that some of them take long enough to be watched.
const environment = closeAfterAll(await startPageEnvironment({
  WEBHOOK_ALLOW_HTTP: 'true',
  WEBHOOK_ALLOW_LOOPBACK: 'true',
  PROVIDERS: JSON.stringify({
    'phone-validation': ['sandbox'], whatsapp: ['sandbox'], 'email-validation': ['sandbox'],
  }),
}))
const browser = closeAfterAll(await openBrowser())
const receiver = await startReceiver()
const newContext = (options = {}) => browser.newContext({
  baseURL: environment.pageUrl, viewport: { width: 1280, height: 800 }, ...options,
})
const context = await newContext()
const answers = recordAnswers(context)
const page = await context.newPage()
// Choosers are handed over from now on, and not only from the moment one is awaited.
page.on('filechooser', () => {})
let made = { secret: '', jobId: '' }

const heading = (name: string) => page.getByRole('heading', { level: 1, name })
const rows = (table: string) =>
  page.getByRole('region', { name: table }).locator('tbody tr')
/** A page in a browser of its own, signed in as a customer by default, until the test ends. */
async function openAs (
  { org = environment.demo.orgId, operator = false }: { org?: string, operator?: boolean } = {},
  options = {}
) {
  const viewer = await newContext(options)
  onTestFinished(() => viewer.close())
  const at = await viewer.newPage()
  await signIn(at, await environment.linkFor(operator ? undefined : org))
  return { viewer, at }
}

it('the sign-in is a link that works once, and only when its button is pressed', async () => {
  const link = await environment.linkFor(environment.demo.orgId)
  // A preview of the link uses nothing up.
  expect((await fetch(link)).status).toBe(200)
  await signIn(page, link)
  await expect.poll(() => page.title()).toBe('Overview · Verification Jobs')
  const [cookie] = (await context.cookies()).filter(({ name }) => name === 'session')
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' })

  const otherContext = await newContext()
  const other = await otherContext.newPage()
  await other.goto(link)
  await other.getByRole('button', { name: 'Sign in' }).click()
  await other.getByText('That link was already used').waitFor()
  await otherContext.close()
})

it('the navigation ' +
  'is one row at 1280 pixels, and a menu on a phone, with the keyboard alone', async () => {
  await page.goto('/live/overview')
  const links = page.getByRole('navigation', { name: 'Sections' }).getByRole('link')
  const tops = await links.evaluateAll(all => all.map(link =>
    (link as unknown as { readonly offsetTop: number }).offsetTop))
  expect(tops.length).toBeGreaterThan(8)
  expect(new Set(tops).size).toBe(1)

  const phone = await context.newPage()
  await phone.setViewportSize({ width: 390, height: 800 })
  await phone.goto('/live/overview')
  const usage = phone.getByRole('link', { name: 'Usage' })
  expect(await usage.isVisible()).toBe(false)
  await tabTo(phone, 'Menu')
  await phone.keyboard.press('Enter')
  await usage.waitFor()
  expect(await violationsOf(phone)).toEqual([])
  await tabTo(phone, 'Usage')
  await phone.keyboard.press('Enter')
  await phone.getByRole('heading', { level: 1, name: 'Usage' }).waitFor()
  await phone.close()
})

describe('a key', () => {
  it('is made with the keyboard alone, shown once, and works', async () => {
    await page.goto('/live/overview')
    await tabTo(page, 'API keys')
    await page.keyboard.press('Enter')
    await heading('API keys').waitFor()
    const before = await rows('API keys').count()
    await tabTo(page, 'Read jobs, results and usage jobs:read')
    await page.keyboard.press('Space')
    await tabTo(page, 'Create the key')
    await page.keyboard.press('Enter')
    await heading('Your new live key').waitFor()
    const secret = await page.locator('#secret').textContent() ?? ''
    made = { ...made, secret }
    expect(secret).toMatch(/^vj_live_[0-9A-Za-z]{36}$/)

    expect(await violationsOf(page)).toEqual([])
    // It may write and not read.
    const client = createClient({ baseUrl: environment.baseUrl, apiKey: secret })
    await expect(client.balance()).rejects.toMatchObject({ code: 'insufficient_scope' })
    await expect(client.createJob({ service: 'phone-validation', inputs: [] }))
      .rejects.toMatchObject({ code: 'invalid_request' })

    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await tabTo(page, 'Copy')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    await expect.poll(() => page.locator('#announcer').textContent()).toBe('Copied.')

    // The form is sent again by a reload; no second key is created.
    await page.reload()
    await page.getByText('This form was sent before').waitFor()
    expect(await rows('API keys').count()).toBe(before + 1)
  })

  it('is rolled and revoked', async () => {
    const ending = made.secret.slice(-4)
    await page.goto('/live/keys')
    await page.getByRole('link', { name: `Roll the key that ends in ${ending}` }).click()
    await page.getByRole('button', { name: 'Roll the key' }).click()
    const secret = await page.locator('#secret').textContent() ?? ''
    const answerTo = async (key: string) => (await fetch(`${environment.baseUrl}/balance`, {
      headers: { authorization: `Bearer ${key}` },
    })).status
    // Both are known, and neither may read.
    expect([await answerTo(secret), await answerTo(made.secret)]).toEqual([403, 403])
    await page.getByRole('link', { name: 'I have stored it' }).click()
    await page.getByRole('link', { name: `Revoke the key that ends in ${ending}` }).click()
    await page.getByRole('button', { name: 'Revoke the key' }).click()
    await page.getByText('The key is revoked.').waitFor()
    const revoked = rows('API keys').filter({ hasText: ending })
    expect(await revoked.getByText('Revoked').count()).toBe(1)
    expect(await revoked.getByRole('link').count()).toBe(0)
    await expect.poll(() => answerTo(made.secret)).toBe(401)
  })
})

describe('a file', () => {
  it('has its country chosen by name, and its service follows its column and reverse', async () => {
    await page.goto('/live/upload')
    const buffer = Buffer.from('name,phone,mail\nAnn,030 901820,ann@example.org\n' +
      'Bob,+49 40 428280,bob@example.org\n')
    await page.getByLabel('File', { exact: true })
      .setInputFiles({ name: 'people.csv', mimeType: 'text/csv', buffer })
    const [column, service, country] = ['Column', 'Service', 'Country']
      .map(name => page.getByRole('combobox', { name })) as [Locator, Locator, Locator]
    const chosen = () => Promise.all([column.locator('option:checked').textContent(),
      service.inputValue(), country.isDisabled()])
    await expect.poll(chosen).toEqual(['phone', 'phone-validation', false])
    const warning = page.getByText('1 of 2 numbers have no country code. 100 % of them fit the ' +
      'numbering plan of Germany.')
    await warning.waitFor()
    await tabTo(page, 'Country')
    await page.keyboard.type('Germany')
    expect(await country.inputValue()).toBe('DE')
    await warning.waitFor({ state: 'hidden' })
    await country.selectOption('')
    await tabTo(page, 'Use Germany')
    expect(await violationsOf(page)).toEqual([])
    await page.keyboard.press('Enter')
    expect(await country.inputValue()).toBe('DE')
    await warning.waitFor({ state: 'hidden' })

    await column.selectOption('mail')
    await expect.poll(chosen).toEqual(['mail', 'email-validation', true])
    await page.getByText('Column "mail": 2 of 2 cells look like e-mail addresses').waitFor()
    await service.selectOption('whatsapp')
    await expect.poll(chosen).toEqual(['phone', 'whatsapp', false])

    const workbook = workbookOf({ sheets: ['List'], rows: rowOf(1, 'phone', '+16467301000') })
    await page.getByLabel('File', { exact: true }).setInputFiles({
      name: 'x.xlsx', mimeType: 'application/octet-stream', buffer: workbook.subarray(0, 200),
    })
    await page.getByRole('alert').getByText('The workbook is damaged.').waitFor()
  })

  it('is quoted, confirmed and watched to its end with the keyboard alone', async () => {
    await page.goto('/live/upload')
    await tabTo(page, 'File')
    const opening = page.waitForEvent('filechooser')
    await page.keyboard.press('Enter')
    const buffer = Buffer.from(PEOPLE)
    await (await opening).setFiles({ name: 'people.csv', mimeType: 'text/csv', buffer })
    const column = page.getByRole('combobox', { name: 'Column' })
    await expect.poll(() => column.locator('option:checked').textContent()).toBe('phone')
    expect(await page.getByRole('combobox', { name: 'Service' }).inputValue())
      .toBe('phone-validation')
    await tabTo(page, 'More')
    await page.keyboard.press('Enter')
    await tabTo(page, 'Webhook address, called when the job ends')
    await page.keyboard.type(`http://127.0.0.1:${receiver.port}/hook`)
    await tabTo(page, 'Show the price')
    await page.keyboard.press('Enter')

    const quote = page.locator('#quote')
    await quote.getByRole('heading', { name: 'At most $1.2080' }).waitFor()
    const text = (await quote.textContent() ?? '').replace(/\s+/g, ' ')
    expect(text).toContain('Checked live604 $0.0020 each')
    expect(await violationsOf(page)).toEqual([])
    expect((await environment.live.jobsPage()).data).toEqual([])

    await tabTo(page, 'Start the job')
    await page.keyboard.press('Enter')
    await heading('people.csv').waitFor()
    made = { ...made, jobId: new URL(page.url()).pathname.split('/').pop() ?? '' }
    await page.getByRole('progressbar', { name: `Progress of ${made.jobId}` }).waitFor()
    expect(await violationsOf(page)).toEqual([])
    await page.getByText('Completed', { exact: true }).waitFor()
    expect(await page.locator('#announcer').textContent()).toContain('people.csv: Completed.')
    expect(await page.getByRole('progressbar').count()).toBe(0)
  })

  it('of a job is there again for another service', async () => {
    await page.goto(`/live/upload?service=whatsapp&list=${made.jobId}`)
    await page.getByRole('cell', { name: 'Person 1', exact: true }).waitFor()
    expect(await page.getByRole('combobox', { name: 'Service' }).inputValue())
      .toBe('whatsapp')
    expect(await violationsOf(page)).toEqual([])
    await page.getByRole('button', { name: 'Show the price' }).click()
    await page.locator('#quote').getByText('Checked live').waitFor()
    const rows = page.getByRole('row', { name: /^All 60\d/ })
    expect(await rows.count()).toBe(1)
  })

  it('of more than 100,000 lines becomes several jobs, cut between its records', async () => {
    await page.goto('/test/upload')
    const lines = Array.from({ length: 100_001 }, (_, at) =>
      `"${at === 99_999 ? 'two\nlines' : 'one'}",+1646${7_300_000 + at}`)
    await page.getByLabel('File', { exact: true }).setInputFiles({
      name: 'large.csv',
      mimeType: 'text/csv',
      buffer: Buffer.from(`note,phone\n${lines.join('\n')}`),
    })
    await page.getByRole('button', { name: 'Show the price' }).click()
    await page.locator('#working').getByText(/^Computing the price, part \d of 2/).waitFor()
    await page.getByText('The file becomes 2 jobs.').waitFor()
    const quoted = page.getByRole('row', { name: /^All 100,001/ })
    expect(await quoted.count()).toBe(1)
    await page.getByRole('button', { name: 'Start 2 jobs' }).click()
    await page.waitForURL(/\/test\/jobs\?search=large\.csv/)
    const { data } = await environment.test.jobsPage()
    expect(data.map(({ metadata: { file }, totalRows }) => [file, totalRows]))
      .toEqual([['large.csv (2 of 2)', 1], ['large.csv (1 of 2)', 100_000]])
  })

  it('has a breakdown, a preview and the file of the interface', async () => {
    const { jobId } = made
    await page.goto(`/live/jobs/${jobId}`)
    const table = page.locator(`#breakdown-${jobId}`)
    const cells = (await table.locator('tbody tr').allTextContents())
      .map(line => line.trim().replace(/\s+/g, ' '))
    expect(cells).toEqual([
      'Checked live 604 99.5 %', 'From your cache 0 0 %', 'Duplicates 1 0.2 %',
      'Unreadable or blocked 2 0.3 %', 'Unknown 0 0 %', 'Cancelled 0 0 %', 'Open 0 0 %',
    ])
    expect(await table.getByRole('img').getAttribute('aria-label'))
      .toBe('Where verdicts come from: Checked live 99.5 %, Duplicates 0.2 %, ' +
        'Unreadable or blocked 0.3 %.')
    expect(await rows('Results').count()).toBe(100)
    expect(await rows('Results').first().textContent()).toContain('+16467301000')

    await page.goto(`/live/jobs/${jobId}`)
    await tabTo(page, 'Download CSV')
    const [download] = await Promise.all([
      page.waitForEvent('download'), page.keyboard.press('Enter'),
    ])
    expect(download.suggestedFilename()).toBe('people.verified.csv')
    const file = readFileSync(await download.path(), 'utf8')
    const text = await environment.live.results(jobId, {
      safe: 'spreadsheet', delimiter: 'semicolon',
    })
    expect(file).toBe(`\ufeff${text}`)
    expect(file).toContain("'=1+1")
  })

  it('has verdicts, counted by country too, and rows that are filtered and sorted', async () => {
    await page.goto(`/live/jobs/${made.jobId}`)
    expect(await page.getByRole('img', { name: 'Verdicts: Valid 99.7 %' }).first().isVisible())
      .toBe(true)
    await rows('Rows by country').filter({ hasText: 'United States' }).waitFor()
    const choices = page.getByRole('navigation', { name: 'Verdict of the rows' })
    await choices.getByRole('link', { name: 'Invalid 2' }).click()
    await expect.poll(() => rows('Results').count()).toBe(2)
    await choices.getByRole('link', { name: 'All' }).click()
    await expect.poll(() => rows('Results').count()).toBe(100)
    const sort = page.getByRole('button', { name: 'Row', exact: true })
    await sort.press('Enter')
    await sort.press('Enter')
    expect(await rows('Results').first().locator('td').first().textContent()).toBe('100')
    expect(await violationsOf(page)).toEqual([])
    // The first press sorts up, the second down.
    expect(await page.locator('th[aria-sort=descending]').textContent()).toBe('Row')
  })

  it('has its event resent', async () => {
    await receiver.until(1, '/hook')
    await expect.poll(async () => {
      await page.goto(`/live/jobs/${made.jobId}`)
      return await rows('Webhook deliveries').count()
    }).toBe(1)
    await page.getByRole('button', { name: 'Send once more' }).click()
    await page.getByText('The event is being sent again.').waitFor()
    const [first, second] = await receiver.until(2, '/hook')
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    await expect.poll(async () => {
      await page.reload()
      return await rows('Webhook deliveries').count()
    }).toBe(2)
  })

  it('moves money, and the balance shows it', async () => {
    await expect.poll(async () => {
      await page.goto('/live/balance')
      return await rows('Movements').count()
    }).toBe(3)
    const lines = (await rows('Movements').allTextContents())
      .map(line => line.trim().replace(/\s+/g, ' '))
    expect(lines.map(line => line.includes(made.jobId))).toEqual([true, true, false])
    expect(lines[1]).toContain('Reserved for a job')
    expect(lines[1]).toContain('−$1.2080')
    expect(lines[2]).toContain('Top-up: demonstration credit')
  })
})

it('the settings ' +
  'keep the freshness policy and make a webhook secret that is shown once', async () => {
  await page.goto('/live/settings')
  await page.getByRole('spinbutton').fill('30')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('The freshness policy is saved.').waitFor()
  expect(await page.getByRole('spinbutton').inputValue()).toBe('30')
  await page.getByRole('button', { name: 'Create a new secret' }).click()
  await heading('Your new webhook secret').waitFor()
  expect(await page.locator('#secret').textContent()).toMatch(/^whsec_/)
})

it('the charts are drawn in the colors of the page, under its policy', async () => {
  const errors: string[] = []
  page.on('console', message => { if (message.type() === 'error') errors.push(message.text()) })
  for (const section of ['overview', 'usage']) {
    await page.goto(`/live/${section}`)
    await expect.poll(() => page.evaluate(countDrawn)).toBe(2)
  }
  expect(errors).toEqual([])
})

/** Runs in the browser: how many charts have been drawn. */
function countDrawn (): number {
  type Canvas = {
    readonly width: number
    readonly height: number
    readonly getContext: (kind: '2d') => {
      readonly getImageData: (...box: readonly number[]) => { readonly data: Uint8ClampedArray }
    }
  }
  const { document } = globalThis as unknown as {
    readonly document: { readonly querySelectorAll: (selector: string) => Iterable<Canvas> }
  }
  return [...document.querySelectorAll('canvas')].filter(canvas => canvas.getContext('2d')
    .getImageData(0, 0, canvas.width, canvas.height).data.some(byte => byte !== 0)).length
}

it('other users and sites cannot reach jobs of this organization, nor the reverse', async () => {
  const other = await createOrganizationWith(environment.env, { availableMicros: 1_000_000 })
  const { viewer } = await openAs({ org: other.orgId })
  const { jobId } = made
  for (const path of ['', '/results.csv', '/valid.csv']) {
    const answer = await viewer.request.get(`/live/jobs/${jobId}${path}`)
    expect([path, answer.status()]).toEqual([path, 404])
    expect(await answer.text()).not.toContain(jobId)
  }
  expect((await viewer.request.get(`/live/live?view=job&job=${jobId}`)).status()).toBe(404)
  // In the other mode of its own organization it is not there either.
  expect((await context.request.get(`/test/jobs/${jobId}`)).status()).toBe(404)
  expect((await context.request.get('/pipeline')).status()).toBe(404)
})

describe('every page', () => {
  const paths = [
    'overview', 'jobs', 'jobs/JOB', 'upload', 'balance', 'keys', 'keys/KEY/roll', 'keys/KEY/revoke',
    'settings', 'jobs/job_0', 'usage', 'webhooks', 'access-log', 'people',
  ]
  const idle = ['/sign-in', ...paths.map(path => `/live/${path}`), '/test/overview', '/test/jobs',
    '/test/balance', '/test/keys']

  /** Opens each, and looks at it. */
  async function visitAll (at: Page, look: (path: string) => Promise<void>): Promise<void> {
    await at.goto('/live/keys')
    const [, key = ''] = /keys\/(key_\w+)\/roll/.exec(await at.content()) ?? []
    for (const path of idle) {
      await at.goto(path.replace('JOB', made.jobId).replace('KEY', key))
      await look(path)
    }
  }

  it.each([
    ['light', 1_280], ['dark', 1_280], ['light', 360], ['dark', 360],
  ] as const)('is accessible, %s, %d pixels wide', async (colorScheme, width) => {
    const { viewer, at } = await openAs(undefined, {
      colorScheme, viewport: { width, height: 800 },
    })
    await visitAll(at, async path => {
      expect([path, await violationsOf(at)]).toEqual([path, []])
    })
    const operator = await viewer.newPage()
    await signIn(operator, await environment.linkFor())
    expect(await violationsOf(operator)).toEqual([])
  })

  it('fits a window of 360 pixels and does not move while it is built', async () => {
    const { at } = await openAs(undefined, { viewport: { width: 360, height: 740 } })
    await visitAll(at, async path => {
      expect([path, await unrestOf(at)]).toEqual([path, { overflow: 0, shift: 0 }])
    })
  })

  it('is shown in the colors and the zone of the viewer', async () => {
    const { at } = await openAs(undefined, { colorScheme: 'dark', timezoneId: 'Asia/Kolkata' })
    await at.goto(`/live/jobs/${made.jobId}`)
    const { createdAt } = await environment.live.job(made.jobId)
    const time = at.locator(`time[datetime="${createdAt}"]`)
    expect(await time.getAttribute('title')).toBe(createdAt)
    const local = new Date(Date.parse(createdAt) + 5.5 * 3_600_000).toISOString()
    expect(await time.textContent()).toContain(local.slice(11, 19))
    const ground = () => at.evaluate('getComputedStyle(document.documentElement).backgroundColor')
    expect(await ground()).toBe('rgb(16, 20, 23)')
    await at.getByRole('combobox', { name: 'Colors' }).selectOption('light')
    expect(await ground()).toBe('rgb(246, 247, 248)')
    await at.reload()
    expect(await ground()).toBe('rgb(246, 247, 248)')
  })
})

describe('operators of the pipeline', () => {
  it('see what moves and what waits on each arrow', async () => {
    const { viewer, at } = await openAs({ operator: true })
    await at.getByText(/^All \d+ processes answer\. Rates /).waitFor()
    const drawn = at.getByRole('img')
    for (const stage of STAGES) expect(await drawn.locator(`#stage-${stage}`).count()).toBe(1)
    await environment.test.createJob({
      service: 'phone-validation',
      inputs: Array.from({ length: 3_000 }, (_, at) => `+1646731${1000 + at}`),
    })
    const row = at.getByRole('row', { name: 'normalize reads rows.submitted' })
    await expect.poll(() => row.textContent())
      .toMatch(/rows\.submitted\s*(0\.[1-9]|[1-9][\d.]*) messages\/s\s*\d+$/)
    await expect.poll(() => drawn.getByText(/^lag \d+$/).count()).toBeGreaterThan(0)
    expect((await viewer.request.get('/live/overview')).status()).toBe(404)
  })

  it('see how mail servers answer, and new figures without a new page', async () => {
    const narrow = { viewport: { width: 360, height: 740 } }
    const { viewer, at } = await openAs({ operator: true }, narrow)
    await at.getByRole('button', { name: 'Menu' }).click()
    await at.getByRole('link', { name: 'Mail servers' }).click()
    await at.getByText('No mail server was asked today').waitFor()
    const empty = await at.content()
    // What the server answers once a list is checked.
    const cells = (asked: number) => '<section><h2>Egresses</h2><div class="table" ' +
      'role="region" aria-label="Egresses" tabindex="0"><table><thead><tr><th scope="col">Owner' +
      '</th><th scope="col">Asked</th></tr></thead><tbody><tr><th scope="row">google</th><td>' +
      `${asked}</td></tr></tbody></table></div></section>`
    let asked = 0
    await viewer.route('**/mail-servers', route => {
      asked += 1
      return route.fulfill({
        contentType: 'text/html',
        body: empty.replace(/<div class="empty">.*?<\/div>/s, cells(asked)),
      })
    })
    const table = at.getByRole('region', { name: 'Egresses' })
    await table.waitFor()
    await table.focus()
    const before = Number(await table.locator('td').textContent())
    await expect.poll(async () => Number(await table.locator('td').textContent()))
      .toBeGreaterThan(before)
    expect(await at.evaluate('document.activeElement.getAttribute("aria-label")'))
      .toBe('Egresses')
    expect(await violationsOf(at)).toEqual([])
    expect(await unrestOf(at)).toEqual({ overflow: 0, shift: 0 })
  })
})

describe('the sign-out', () => {
  it('signs out the session in every window', async () => {
    const { viewer, at } = await openAs()
    const redis = openRedis(environment.env.REDIS_STATE_URL ?? '')
    const id = (await viewer.cookies()).find(({ name }) => name === 'session')?.value ?? ''
    const key = `page:session:${createHash('sha256').update(id).digest('hex')}`
    expect(await redis.pttl(key)).toBeGreaterThan(3_500_000)
    await redis.pexpire(key, 1)
    await expect.poll(() => redis.exists(key)).toBe(0)
    redis.disconnect()
    await at.getByRole('link', { name: 'Jobs', exact: true }).click()
    await at.getByText('You are signed out. Sign in again').waitFor()
    expect((await viewer.request.get('/live/live?view=list&job=job_0')).status()).toBe(401)
  })

  it('is a button, after which the cookie is invalid', async () => {
    const state = await context.storageState()
    await page.goto('/live/overview')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByText('You have signed out.').waitFor()
    const thief = await newContext({ storageState: state })
    const answer = await thief.request.get('/live/overview', { maxRedirects: 0 })
    expect([answer.status(), answer.headers().location])
      .toEqual([303, '/sign-in?notice=signed-out'])
    await thief.close()
  })
})

it('a secret is in the one response that shows it, and in no other', async () => {
  const all = await answers.all()
  expect(all.length).toBeGreaterThan(50)
  const telling = all.filter(({ content }) => content.match(SECRET) !== null)
  expect(telling.map(({ url }) => url.replace(/key_\w+/, 'KEY'))).toEqual([
    `POST ${environment.pageUrl}/live/keys`,
    `POST ${environment.pageUrl}/live/keys/KEY/roll`,
    `POST ${environment.pageUrl}/live/settings/webhook-secret`,
  ])
  for (const { content } of telling) expect(content.match(SECRET)).toHaveLength(1)
  const known = [...Object.values(environment.demo.keys), environment.demo.webhookSecret]
  expect(all.filter(({ content }) => known.some(one => content.includes(one)))).toEqual([])
})
