import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { Provider } from 'oidc-provider'

// A certified OpenID provider as a process of its own. It accepts any login with any password. A
// login names the account and its address: `ann|ann@example.com`; that of an account that begins
// with `unverified` is not verified.
const [issuer = '', port = '', pageUrl = ''] = process.argv.slice(2)
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'page',
    client_secret: 'a secret of the tests',
    redirect_uris: [`${pageUrl}/sign-in/callback`],
    grant_types: ['authorization_code'],
    response_types: ['code'],
  }],
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' }] },
  cookies: { keys: [randomBytes(32).toString('hex')] },
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      email: id.split('|')[1] ?? '',
      email_verified: !id.startsWith('unverified'),
    }),
  }),
  // The page is a client of the same operator, so nobody is asked for consent.
  loadExistingGrant: async ({ oidc: { client, session, provider: { Grant } } }) => {
    const grant = new Grant({ clientId: client.clientId, accountId: session.accountId })
    grant.addOIDCScope('openid email')
    await grant.save()
    return grant
  },
})

// 127.0.0.1 would be the same site as the page.
provider.listen(Number(port), 'localhost', () => process.send?.('listening'))
