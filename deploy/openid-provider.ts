import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { Command } from 'commander'
import { Provider } from 'oidc-provider'
import { createMemoryAdapter } from 'oidc-provider/lib/adapters/memory_adapter.js'
import { explainListenError } from '../services/runtime/platform/http-server.ts'
import { readJson } from './local/json-file.ts'

// An OpenID provider to try the page with, on this machine only: it accepts every e-mail address
// with every password. A login may name the account before its address: `ann|ann@example.com`.
// The address of an account that begins with `unverified` is not verified.
const options = new Command('openid-provider')
  .description('Starts an OpenID provider to try the sign-in of people with. It accepts every ' +
    'e-mail address with every password. Ends with Ctrl-C.')
  .option('--port <number>', 'where it listens on this machine', '9400')
  .option('--secret <text>', 'secret of the client "page"', 'only-for-tries')
  .option('--page <url>', 'address of the page; that of the running local stack by default')
  .option('--data <folder>', 'folder that was passed to "up"', '.local')
  .parse()
  .opts<{ port: string, secret: string, page?: string, data: string }>()

/** 127.0.0.1 would be the same site as the page. */
const issuer = `http://localhost:${options.port}`
const pageUrl = options.page ??
  readJson<{ readonly pageUrl: string }>(`${options.data}/stack.json`)?.pageUrl
if (pageUrl === undefined) {
  console.error('openid-provider: no stack runs in this folder. Start one with "npm run up", or ' +
    'pass --page <url>.')
  process.exit(1)
}

const HOUR_S = 3_600
const DAY_S = 24 * HOUR_S

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })
const provider = new Provider(issuer, {
  clients: [{
    client_id: 'page',
    client_secret: options.secret,
    redirect_uris: [`${pageUrl}/sign-in/callback`],
    grant_types: ['authorization_code'],
    response_types: ['code'],
  }],
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' }] },
  // The library warns of its defaults, which are these.
  adapter: createMemoryAdapter(),
  ttl: {
    AccessToken: HOUR_S,
    IdToken: HOUR_S,
    Interaction: HOUR_S,
    Session: 14 * DAY_S,
    Grant: 14 * DAY_S,
  },
  cookies: { keys: [randomBytes(32).toString('hex')] },
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      email: id.split('|').at(-1) ?? '',
      email_verified: !id.startsWith('unverified'),
    }),
  }),
  // The page is a client of the same operator, so people are not asked for consent.
  loadExistingGrant: async ({ oidc: { client, session, provider: { Grant } } }) => {
    const grant = new Grant({ clientId: client.clientId, accountId: session.accountId })
    grant.addOIDCScope('openid email')
    await grant.save()
    return grant
  },
})

const server = provider.listen(Number(options.port), 'localhost', () => {
  console.log(`OpenID provider of ${pageUrl}. Settings of the page:\n` +
    `export OIDC_ISSUER=${issuer} OIDC_CLIENT_ID=page OIDC_CLIENT_SECRET=${options.secret}`)
  process.send?.('listening')
})
server.once('error', error => {
  const explained = explainListenError(error, '--port')
  console.error(`openid-provider: ${explained instanceof Error ? explained.message : 'failed'}`)
  process.exit(1)
})
