import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { describe, expect, it } from 'vitest'
import { createPage } from '../../../services/page/app.ts'
import { selfSigned } from '../../../deploy/local/certificate.ts'
import { createPageDeps } from '../../support/page/page-doubles.ts'

describe('the page over HTTPS', () => {
  it('sends Strict-Transport-Security and sets a Secure cookie', async () => {
    const deps = createPageDeps()
    const { cert, key } = selfSigned('page')
    const https = { cert: Buffer.from(cert), key: Buffer.from(key) }
    const app = createPage({ deps, trustedProxies: [], https })
    try {
      const origin = (await app.listen({ host: '127.0.0.1', port: 0 }))
      const code = await deps.signInCodes.create({ kind: 'operator' })
      const sent = request(`${origin}/sign-in`, {
        method: 'POST',
        ca: cert,
        servername: 'localhost',
        checkServerIdentity: () => undefined,
        headers: { origin, 'content-type': 'application/x-www-form-urlencoded' },
      }).end(`code=${code}`)
      const [answer] = await once(sent, 'response') as [IncomingMessage]
      answer.resume()
      expect(answer.headers).toMatchObject({
        location: '/pipeline', 'strict-transport-security': 'max-age=31536000',
      })
      expect(answer.headers['set-cookie']?.[0]).toMatch(/^__Host-session=.*; Secure;/)
    } finally {
      await app.close()
    }
  })
})
