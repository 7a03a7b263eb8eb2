import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { describe, expect, it } from 'vitest'
import { createPage } from '../../../../services/workspace/page/app.ts'
import { selfSigned } from '../../../support/certificate.ts'
import { createPageParts } from '../../../support/page-parts.ts'

describe('the page over HTTPS', () => {
  it('says that it is for HTTPS only, and sets a cookie for HTTPS only', async () => {
    const parts = createPageParts()
    const { cert, key } = selfSigned('page')
    const https = { cert: Buffer.from(cert), key: Buffer.from(key) }
    const app = createPage({ parts, trustedProxies: [], https })
    try {
      const origin = (await app.listen({ host: '127.0.0.1', port: 0 }))
      const code = await parts.signInCodes.create({ kind: 'operator' })
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
