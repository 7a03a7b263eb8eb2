/** What a request got in the end: the page after redirects and refreshes. */
export type Loaded = {
  readonly url: URL
  readonly status: number
  readonly body: string
  /** The addresses of all requests, in order. */
  readonly trail: readonly string[]
}

type Sending = { readonly url: URL, readonly from?: URL, readonly form?: URLSearchParams }

const MAX_STEPS = 20

/**
 * A browser without a screen: it keeps cookies by host, sends those that are SameSite=Strict only
 * within a site, and follows redirects and refreshes.
 */
export function openHttpBrowser (home: string) {
  const jar = createCookieJar()
  const browser = {
    cookies: jar.cookies,
    open: (path: string): Promise<Loaded> => send(jar, { url: new URL(path, home) }),

    /** Submits a form of the page, with the token of the session. */
    submit: async (path: string, fields: Readonly<Record<string, string>>): Promise<Loaded> => {
      const { body } = await browser.open('/live/overview')
      const [, token = ''] = /name="form_token" value="([\w-]+)"/.exec(body) ?? []
      const form = new URLSearchParams({ form_token: token, ...fields })
      return await send(jar, { url: new URL(path, home), from: new URL(home), form })
    },

    /** Fills in the form of the provider that a sign-in led to. */
    logIn: async (loaded: Loaded, login: string): Promise<Loaded> => {
      const [, action = ''] = /action="([^"]+)"/.exec(loaded.body) ?? []
      const form = new URLSearchParams({ prompt: 'login', login, password: 'any' })
      return await send(jar, { url: new URL(action, loaded.url), from: loaded.url, form })
    },

    /** Signs in through the provider, which may still know this browser. */
    signIn: async (login: string): Promise<Loaded> => {
      const loaded = await browser.open('/sign-in/start')
      return loaded.url.origin === home ? loaded : await browser.logIn(loaded, login)
    },
  }
  return browser
}

type Jar = ReturnType<typeof createCookieJar>

function createCookieJar () {
  const cookies = new Map<string, { value: string, isStrict: boolean }>()
  return {
    /** By host and name. */
    cookies,

    sentTo: (url: URL, isSameSite: boolean): string => [...cookies]
      .filter(([key, { isStrict }]) => key.startsWith(`${url.host} `) && (isSameSite || !isStrict))
      .map(([key, { value }]) => `${key.split(' ')[1]}=${value}`).join('; '),

    keep: (url: URL, { headers }: Response): void => {
      for (const line of headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        const isStrict = /samesite=strict/i.test(line)
        const isEnded = value === '' || /expires=Thu, 01 Jan 1970|max-age=0/i.test(line)
        if (isEnded) cookies.delete(`${url.host} ${name}`)
        else cookies.set(`${url.host} ${name}`, { value, isStrict })
      }
    },
  }
}

async function send (jar: Jar, { from, form, ...start }: Sending): Promise<Loaded> {
  const trail: string[] = []
  let [{ url }, body] = [start, form]
  let isSameSite = from === undefined || from.hostname === url.hostname
  while (trail.length < MAX_STEPS) {
    trail.push(url.href)
    const response = await fetch(url, {
      redirect: 'manual',
      headers: {
        cookie: jar.sentTo(url, isSameSite),
        ...body && from && { origin: from.origin, 'sec-fetch-site': 'same-origin' },
      },
      ...body && { body, method: 'POST' },
    })
    jar.keep(url, response)
    const text = await response.text()
    const [, refresh] = /http-equiv="refresh" content="0;url=([^"]+)"/.exec(text) ?? []
    const location = response.headers.get('location') ?? refresh?.replaceAll('&amp;', '&')
    if (location === undefined) return { url, status: response.status, body: text, trail }
    const next = new URL(location, url)
    // A refresh is a navigation that this page starts; a redirect belongs to the one before it.
    isSameSite = (refresh !== undefined || isSameSite) && next.hostname === url.hostname
    url = next
    body = undefined
  }
  throw new Error(`more than ${MAX_STEPS} steps: ${trail.join(' ')}`)
}
