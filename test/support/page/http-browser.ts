import { request, type APIResponse } from 'playwright-core'
import { onTestFinished } from 'vitest'

/** What a request got in the end. */
type Loaded = {
  readonly url: URL
  readonly status: number
  readonly body: string
  /** The path by which a sign-in was completed. */
  readonly completed: string
}

/**
 * A browser without a screen, until the end of the test: it keeps cookies, and follows redirects
 * and the refresh by which the page returns from the provider. Tests of the page have a real one.
 */
export async function openHttpBrowser (pageUrl: string) {
  const client = await request.newContext({ baseURL: pageUrl })
  onTestFinished(() => client.dispose())
  const load = async (answer: APIResponse): Promise<Loaded> => {
    const body = await answer.text()
    const [, refresh] = /http-equiv="refresh" content="0;url=([^"]+)"/.exec(body) ?? []
    if (refresh === undefined) {
      return { url: new URL(answer.url()), status: answer.status(), body, completed: '' }
    }
    const completed = refresh.replaceAll('&amp;', '&')
    return { ...await browser.open(completed), completed }
  }
  const post = async (url: string | URL, form: Record<string, string>, { origin }: URL) =>
    await load(await client.post(String(url), { form, headers: { origin } }))
  const browser = {
    cookies: async () => (await client.storageState()).cookies,
    open: async (path: string): Promise<Loaded> => await load(await client.get(path)),

    /** Submits a form of a page, with its token and its nonce. */
    submit: async (path: string, from: string, form: Record<string, string> = {}) => {
      const { body } = await browser.open(from)
      const valueOf = (name: string) =>
        new RegExp(`name="${name}" value="([^"]+)"`).exec(body)?.[1] ?? ''
      const hidden = { form_token: valueOf('form_token'), nonce: valueOf('nonce') }
      return await post(path, { ...hidden, ...form }, new URL(pageUrl))
    },

    /** Signs in by a link. */
    openLink: async (link: string): Promise<Loaded> =>
      await post('/sign-in', { code: new URL(link).hash.slice(1) }, new URL(pageUrl)),

    /** Signs in through the provider, which may still know this browser. */
    signIn: async (login: string): Promise<Loaded> => {
      const loaded = await browser.open('/sign-in/start')
      if (loaded.url.origin === pageUrl) return loaded
      const [, action = ''] = /action="([^"]+)"/.exec(loaded.body) ?? []
      const form = { prompt: 'login', login, password: 'any' }
      return await post(new URL(action, loaded.url), form, loaded.url)
    },

    /** Starts a sign-in, and returns the state by which the provider would return. */
    stateOfStart: async (): Promise<string> => {
      const { location = '' } = (await client.get('/sign-in/start', { maxRedirects: 0 })).headers()
      return new URL(location).searchParams.get('state') ?? ''
    },
  }
  return browser
}
