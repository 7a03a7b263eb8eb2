import type { FastifyInstance } from 'fastify'
import { createPage } from '../../../services/page/app.ts'
import type { PageDeps } from '../../../services/page/context.ts'
import { secretDigest, type SignedIn } from '../../../services/accounts/sessions.ts'
import { createPageDeps, ORGANIZATION } from './page-doubles.ts'

/** Pages of doubles, and browsers behind a proxy that are signed in to them. */
export function createBrowsers () {
  const opened: FastifyInstance[] = []
  return {
    open: (more: Partial<PageDeps> = {}, client: object = {}) => openPage(opened, more, client),
    closeAll: async () => { await Promise.all(opened.splice(0).map(app => app.close())) },
  }
}

const customer: SignedIn = { kind: 'customer', orgId: ORGANIZATION.id }

function openPage (opened: FastifyInstance[], more: Partial<PageDeps>, client: object) {
  const deps = createPageDeps(client, more)
  const app = createPage({ deps, trustedProxies: ['127.0.0.1'] })
  opened.push(app)
  const proxied = {
    host: 'h',
    origin: 'https://h',
    'x-forwarded-proto': 'https',
    'x-forwarded-for': '192.0.2.7',
    'content-type': 'application/x-www-form-urlencoded',
  }
  const signIn = async (subject = customer) => {
    const { id, session } = await deps.sessions.create(subject)
    const headers = { ...proxied, cookie: `__Host-session=${id}` }
    return {
      actor: { kind: 'link', id: secretDigest(id).slice(0, 16) },
      get: (url: string) => app.inject({ url, headers }),
      send: (
        url: string, form: Record<string, string> = {},
        { token = session.token, ...more }: Readonly<Record<string, string>> = {}
      ) => app.inject({
        method: 'POST',
        url,
        headers: { ...headers, ...more },
        payload: String(new URLSearchParams({ form_token: token, ...form })),
      }),
    }
  }
  const redeem = async (code: string) => await app.inject({
    method: 'POST',
    url: '/sign-in',
    headers: proxied,
    payload: String(new URLSearchParams({ code })),
  })
  return { deps, signIn, redeem }
}
