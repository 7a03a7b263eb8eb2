import { fork } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { selfSigned } from '../../deploy/local/certificate.ts'
import { eventually } from '../support/eventually.ts'
import { newFolder } from '../support/folder.ts'
import { MESSAGE_KEY_ENV } from '../support/keys/signed.ts'
import { endChild } from '../support/stacks/processes.ts'
import { type SecureBroker, startSecureBroker } from '../support/stacks/secure-broker.ts'
import type { MemberNews } from '../support/stacks/secure-member.ts'
import { startTokenProvider, type TokenProvider } from '../support/stacks/token-provider.ts'

type Member = ReturnType<typeof startMember>

/** Starts a member in a process of its own, with nothing but `env` and the path. */
function startMember (env: Readonly<Record<string, string>>) {
  const child = fork(`${import.meta.dirname}/../support/stacks/secure-member.ts`, {
    env: { PATH: process.env['PATH'], ...env }, stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const news: MemberNews[] = []
  const log: Record<string, unknown>[] = []
  child.on('message', message => { news.push(message as MemberNews) })
  for (const stream of [child.stdout, child.stderr]) {
    createInterface(stream!).on('line', line => { log.push(entryOf(line)) })
  }
  return { news, log, exitCode: () => child.exitCode, stop: () => endChild(child) }
}

function entryOf (line: string): Record<string, unknown> {
  try {
    return JSON.parse(line) as Record<string, unknown>
  } catch {
    return { msg: line }
  }
}

const USER = { username: 'jobs', password: 'a+b@c' }
/** No other case uses these accounts, so revoking their access affects one case. */
const REVOKED = { username: 'revoked', password: 'r+w@d' }
const DENIED = { username: 'denied', password: 'd+n@d' }
const ROTATED = { username: 'rotated', password: 'r+t@d' }
const SCRAM = 'scram-sha-512'
const CLIENT = { id: 'jobs', secret: 'a-secret-of-32-characters-or-more' }
const folder = newFolder('secure-connections-')
const certificate = selfSigned('secure')
const files = { cert: `${folder}/cert.pem`, key: `${folder}/key.pem` }

beforeAll(() => {
  writeFileSync(files.cert, certificate.cert)
  writeFileSync(files.key, certificate.key)
})

const within = async (child: Member, work: (child: Member) => Promise<void>) => {
  try {
    await work(child)
  } finally {
    await child.stop()
  }
}

describe.concurrent('Kafka over TLS with authentication', () => {
  let broker: SecureBroker
  let tokens: TokenProvider
  beforeAll(async () => {
    tokens = await startTokenProvider(CLIENT)
    broker = await startSecureBroker([USER, REVOKED, DENIED, ROTATED], certificate, tokens.jwksUrl)
  })
  afterAll(async () => {
    await broker?.close()
    tokens?.close()
  })
  const member = (
    mechanism: string, { username, password } = USER,
    more: Readonly<Record<string, string>> = {}
  ) =>
    memberWith({
      KAFKA_SASL_MECHANISM: mechanism,
      KAFKA_SASL_USERNAME: username,
      KAFKA_SASL_PASSWORD: password,
      ...more,
    })
  const memberWith = (more: Readonly<Record<string, string>>) =>
    startMember({
      ...MESSAGE_KEY_ENV,
      NODE_EXTRA_CA_CERTS: files.cert,
      KAFKA_BROKERS: broker.address,
      KAFKA_TLS: 'true',
      ...more,
    })
  const byToken = (secret = CLIENT.secret) => memberWith({
    KAFKA_SASL_MECHANISM: 'oauthbearer',
    KAFKA_OAUTH_TOKEN_URL: tokens.tokenUrl,
    KAFKA_OAUTH_CLIENT_ID: CLIENT.id,
    KAFKA_OAUTH_CLIENT_SECRET: secret,
    KAFKA_OAUTH_SCOPE: 'kafka',
  })
  const byCertificate = () => memberWith({
    KAFKA_BROKERS: broker.addressOfCertificates,
    KAFKA_TLS_CERT_FILE: files.cert,
    KAFKA_TLS_KEY_FILE: files.key,
  })
  const readiness = async (log: Member['log']) => {
    const port = String(log.find(({ port }) => port !== undefined)?.['port'])
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).status
  }

  const refused = /^Kafka authentication failed: /
  const wrong = { ...USER, password: 'wrong' }

  it.each([
    {
      what: 'no authority',
      child: () => member('plain', USER, { NODE_EXTRA_CA_CERTS: '' }),
      fault: /^The certificate of Kafka is not trusted: /,
    },
    {
      what: 'a wrong password by scram-sha-512',
      child: () => member(SCRAM, wrong),
      fault: refused,
    },
    { what: 'a wrong password by plain', child: () => member('plain', wrong), fault: refused },
    {
      what: 'a wrong secret of its client',
      child: () => byToken('wrong'),
      fault: /^no token from KAFKA_OAUTH_TOKEN_URL \(invalid_client\): check it, /,
    },
  ])('with $what is logged once, and retried without being ready', async ({ child, fault }) => {
    await within(child(), async ({ news, log, exitCode }) => {
      await eventually(() => expect(news).toEqual([
        { kind: 'made', fault: expect.stringMatching(fault) },
      ]))
      const tellings = () => log.filter(({ msg }) => fault.test(String(msg)))
      await eventually(() => expect(tellings()).toHaveLength(1))
      // The next refusals have come and gone when the client has tried some times more.
      const tries = log.length
      await eventually(() => expect(log.length).toBeGreaterThan(tries + 12))
      expect(tellings()).toHaveLength(1)
      expect(JSON.stringify(log)).not.toContain(USER.password)
      expect([exitCode(), await readiness(log)]).toEqual([null, 503])
    })
  })

  /** Lets something be withdrawn from a member that works, and given back when it has noticed. */
  const withdrawn = async (account: typeof USER, logged: RegExp, {
    withdraw, giveBack,
  }: Record<'withdraw' | 'giveBack', (account: typeof USER) => Promise<unknown>>) => {
    await within(member(SCRAM, account), async ({ news, log, exitCode }) => {
      const reads = () => news.filter(({ kind }) => kind === 'read').length
      await eventually(() => expect(reads()).toBe(1))
      await withdraw(account)
      try {
        await eventually(async () => {
          expect(log.filter(({ msg }) => logged.test(String(msg)))).toHaveLength(1)
          expect(await readiness(log)).toBe(503)
        })
      } finally {
        await giveBack(account)
      }
      // It committed nothing, so it reads the message again when it has come back.
      await eventually(async () => {
        expect([await readiness(log), reads() > 1]).toEqual([200, true])
      })
      expect(exitCode()).toBe(null)
    })
  }

  it('is not ready while its password is revoked, and recovers', async () => {
    await withdrawn(REVOKED, refused, { withdraw: broker.revoke, giveBack: broker.restore })
  })

  it('is not ready while it lacks a permission, and recovers', async () => {
    await withdrawn(DENIED, /^Kafka authorization failed \(GROUP_AUTHORIZATION_FAILED\)/,
      { withdraw: broker.deny, giveBack: broker.permit })
  })

  it('signs in by the new password of its file when the old one is withdrawn', async () => {
    const passwordFile = `${folder}/password`
    writeFileSync(passwordFile, `${ROTATED.password}\n`)
    const child = memberWith({
      KAFKA_SASL_MECHANISM: SCRAM,
      KAFKA_SASL_USERNAME: ROTATED.username,
      KAFKA_SASL_PASSWORD_FILE: passwordFile,
    })
    await within(child, async ({ news, log }) => {
      await eventually(() => expect(news.filter(({ kind }) => kind === 'read')).toHaveLength(1))
      await broker.restore({ ...ROTATED, password: 'another' })
      // Its connections sign in again after a while, by the password that is not valid any more.
      await eventually(async () => expect(await readiness(log)).toBe(503))
      writeFileSync(passwordFile, 'another\n')
      await eventually(async () => expect(await readiness(log)).toBe(200))
    })
  })

  it.each([
    ['plain', () => member('plain')],
    [SCRAM, () => member(SCRAM)],
    ['a token, which all its connections share', () => byToken()],
    ['its certificate', () => byCertificate()],
  ])('creates, writes and reads a topic by %s', async (_, child) => {
    await within(child(), async ({ news, log }) => {
      await eventually(() => expect(news).toEqual([
        { kind: 'made' }, { kind: 'read', text: 'hello' },
      ]))
      expect(await readiness(log)).toBe(200)
    })
    expect(tokens.issued()).toBeLessThanOrEqual(2)
  })
})
