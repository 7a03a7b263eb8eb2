import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import type { Role } from '../../services/accounts/people.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openBrowser } from '../support/page/browser.ts'
import { loginOf } from '../support/page/openid-provider.ts'
import { unrestOf, violationsOf } from '../support/page/page.ts'
import { startPeopleEnvironment } from '../support/page/people.ts'

const environment = closeAfterAll(await startPeopleEnvironment())
const browser = closeAfterAll(await openBrowser())
await environment.startProvider()

const emailOf = (name: string) => `${name}@people.example`
const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name })

async function newPage (width = 1_280) {
  const context = await browser.newContext({
    baseURL: environment.pageUrl, viewport: { width, height: 800 },
  })
  return await context.newPage()
}

/** Fills in the form of the provider. */
async function logIn (page: Page, name: string) {
  await page.waitForURL(url => url.hostname === 'localhost')
  await page.locator('input[name=login]').fill(loginOf(name, emailOf(name)))
  await page.locator('input[name=password]').fill('any')
  await page.getByRole('button', { name: 'Sign-in' }).click()
  await page.waitForURL(url => url.hostname !== 'localhost' && url.pathname.startsWith('/live/'))
}

/** Makes the authentication in a browser older than changes of keys and people allow. */
async function makeOld (page: Page) {
  const cookies = await page.context().cookies(environment.pageUrl)
  const session = cookies.find(({ name }) => name === 'session')
  await environment.age(session?.value ?? '', 301_000)
}

/** A browser in which a new person with a role has signed in. */
async function signedIn (name: string, role: Role, width?: number) {
  await environment.add(emailOf(name), role)
  const page = await newPage(width)
  await page.goto('/sign-in')
  await page.getByRole('link', { name: 'Sign in', exact: true }).click()
  await logIn(page, name)
  return page
}

describe('a person in a browser', () => {
  it('signs in through the provider and is shown by the address', async () => {
    const page = await signedIn('ann', 'owner')
    await heading(page, 'Overview').waitFor()
    await page.getByRole('link', { name: emailOf('ann') }).waitFor()
    const cookies = (await page.context().cookies(environment.pageUrl))
      .filter(({ name }) => name === 'session' || name === 'sign-in')
    expect(cookies).toMatchObject([{ name: 'session', httpOnly: true, sameSite: 'Strict' }])
  })

  it('authenticates again, returns to the keys, and makes one in the own name', async () => {
    const page = await signedIn('dev', 'developer')
    await makeOld(page)
    await page.getByRole('link', { name: 'API keys' }).click()
    await page.getByRole('link', { name: 'confirm that it is you' }).click()
    await logIn(page, 'dev')
    await heading(page, 'API keys').waitFor()
    expect(await page.getByRole('link', { name: 'confirm that it is you' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Create the key' }).click()
    await heading(page, 'Your new live key').waitFor()
    const createdBy = await environment.idOf(emailOf('dev'))
    expect(await environment.keys()).toMatchObject([{ createdBy }, {}])
  })

  it('is stopped at a form that was open for too long, and loses nothing else', async () => {
    const page = await signedIn('late', 'developer')
    await page.goto('/live/keys')
    await makeOld(page)
    await page.getByRole('button', { name: 'Create the key' }).click()
    await heading(page, 'Confirm that it is you').waitFor()
    expect(await violationsOf(page)).toEqual([])
    await page.getByRole('link', { name: 'Confirm', exact: true }).click()
    await logIn(page, 'late')
    await heading(page, 'API keys').waitFor()
  })

  it('is added, changed and removed by an owner', async () => {
    const page = await signedIn('chief', 'owner')
    await page.getByRole('link', { name: 'People', exact: true }).click()
    await page.getByRole('textbox', { name: 'E-mail address' }).fill(emailOf('new'))
    await page.getByRole('button', { name: 'Add' }).click()
    await page.getByText('The person is added').waitFor()
    await page.getByRole('link', { name: emailOf('new') }).click()
    await page.getByRole('combobox', { name: 'Role' }).selectOption('finance')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The role is saved').waitFor()
    await page.getByRole('link', { name: emailOf('new') }).click()
    await page.getByRole('button', { name: 'Remove' }).click()
    await page.getByText('The person is removed').waitFor()
    expect(await page.getByRole('link', { name: emailOf('new') }).count()).toBe(0)
  })

  it('signs out in every browser', async () => {
    const [page, other] = [await signedIn('two', 'read-only'), await newPage()]
    await other.goto('/sign-in/start')
    await logIn(other, 'two')
    await page.getByRole('link', { name: emailOf('two') }).click()
    await page.getByRole('button', { name: 'Sign out everywhere' }).click()
    await page.getByText('You have signed out in every browser.').waitFor()
    await other.goto('/live/jobs')
    await other.getByText('You are signed out. Sign in again.').waitFor()
  })
})

it.each([1_280, 360])('the pages of people are accessible and fit %d pixels', async width => {
  const page = await signedIn(`wide-${width}`, 'owner', width)
  const [person] = await environment.people.list(environment.orgId)
  const paths = [
    '/sign-in', '/live/overview', '/live/account', '/live/keys', '/live/people',
    `/live/people/${person?.id}`, '/sign-in/complete',
  ]
  for (const path of paths) {
    await page.goto(path)
    expect([path, await violationsOf(page)]).toEqual([path, []])
    expect([path, await unrestOf(page)]).toEqual([path, { overflow: 0, shift: 0 }])
  }
})
