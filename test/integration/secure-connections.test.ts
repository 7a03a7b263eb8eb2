import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo, Server } from 'node:net'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import { selfSigned } from '../support/certificate.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { startSecureBroker, type SecureBroker } from '../support/secure-broker.ts'
import { startSecureChild, type SecureChild } from '../support/secure-child.ts'
import { createSecureFront } from '../support/secure-front.ts'
import type { MemberNews } from '../support/secure-member.ts'
import type { StoreNews } from '../support/secure-stores.ts'

const USER = { username: 'jobs', password: 'a+b@c' }
const IN_ADDRESS = `${USER.username}:${encodeURIComponent(USER.password)}`
const WITHIN = { timeout: 60_000, interval: 100 }
const SCRAM = 'scram-sha-512'
const folder = mkdtempSync(`${tmpdir()}/secure-connections-`)
const certificate = selfSigned('secure')
const files = { cert: `${folder}/cert.pem`, key: `${folder}/key.pem` }
const trusting = { NODE_EXTRA_CA_CERTS: files.cert }

beforeAll(() => {
  writeFileSync(files.cert, certificate.cert)
  writeFileSync(files.key, certificate.key)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const within = async <News>(
  child: SecureChild<News>, work: (child: SecureChild<News>) => Promise<void>
) => {
  try {
    await work(child)
  } finally {
    await child.stop()
  }
}

describe('Kafka over TLS, for those only who sign in', () => {
  let broker: SecureBroker
  beforeAll(async () => { broker = await startSecureBroker(USER, certificate) })
  afterAll(() => broker?.close())
  const member = (mechanism: string, more: Readonly<Record<string, string>> = trusting) =>
    startSecureChild<MemberNews>('secure-member.ts', {
      KAFKA_BROKERS: broker.address,
      KAFKA_TLS: 'true',
      KAFKA_SASL_MECHANISM: mechanism,
      KAFKA_SASL_USERNAME: USER.username,
      KAFKA_SASL_PASSWORD: USER.password,
      ...more,
    })
  const readiness = async ({ log }: SecureChild<MemberNews>) => {
    const port = String(log.find(({ port }) => port !== undefined)?.['port'])
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).status
  }

  it.each(['plain', 'scram-sha-512'])('is made a topic on, sent to and read from by %s',
    async mechanism => {
      await within(member(mechanism), async child => {
        await vi.waitFor(() => expect(child.news).toEqual([
          { kind: 'made' }, { kind: 'read', text: 'hello' },
        ]), WITHIN)
        expect(await readiness(child)).toBe(200)
      })
    })

  it.each([
    {
      what: 'a wrong password by scram-sha-512',
      mechanism: 'scram-sha-512',
      more: { ...trusting, KAFKA_SASL_PASSWORD: 'wrong' },
      fault: /^Kafka refuses to sign this user in: /,
      told: /^Kafka refuses to sign this user in: /,
    },
    {
      what: 'a wrong password by plain',
      mechanism: 'plain',
      more: { ...trusting, KAFKA_SASL_PASSWORD: 'wrong' },
      fault: /^Kafka refuses to sign this user in: /,
      told: /^Kafka refuses to sign this user in: /,
    },
    {
      what: 'no authority',
      mechanism: 'plain',
      more: {},
      fault: /^The certificate of Kafka is not trusted: /,
      told: /^The certificate of Kafka is not trusted: /,
    },
  ])('with $what is told once, and waited for without being ready',
    async ({ mechanism, more, fault, told }) => {
      await within(member(mechanism, more), async child => {
        await vi.waitFor(() => expect(child.news).toEqual([
          { kind: 'made', fault: expect.stringMatching(fault) },
        ]), WITHIN)
        const tellings = () => child.log.filter(({ msg }) => told.test(String(msg)))
        await vi.waitFor(() => expect(tellings()).toHaveLength(1), WITHIN)
        // The next refusals have come and gone when the client has tried some times more.
        const tries = child.log.length
        await vi.waitFor(() => expect(child.log.length).toBeGreaterThan(tries + 12), WITHIN)
        expect(tellings()).toHaveLength(1)
        expect(JSON.stringify(child.log)).not.toContain(USER.password)
        expect([child.exitCode(), await readiness(child)]).toEqual([null, 503])
      })
    })

  /** Lets something be withdrawn from a member that works, and given back when it has noticed. */
  const withdrawn = async (
    told: RegExp, withdraw: () => Promise<unknown>, giveBack: () => Promise<unknown>
  ) => {
    await within(member(SCRAM), async child => {
      const reads = () => child.news.filter(({ kind }) => kind === 'read').length
      await vi.waitFor(() => expect(reads()).toBe(1), WITHIN)
      await withdraw()
      try {
        await vi.waitFor(async () => {
          expect(child.log.filter(({ msg }) => told.test(String(msg)))).toHaveLength(1)
          expect(await readiness(child)).toBe(503)
        }, WITHIN)
      } finally {
        await giveBack()
      }
      // It committed nothing, so it reads the message again when it has come back.
      await vi.waitFor(async () => {
        expect([await readiness(child), reads() > 1]).toEqual([200, true])
      }, WITHIN)
      expect(child.exitCode()).toBe(null)
    })
  }

  it('waits without being ready while its password is revoked, and goes on', async () => {
    await withdrawn(/^Kafka refuses to sign this user in: /, broker.revoke, broker.restore)
  })

  it('waits without being ready while it lacks a right, and goes on', async () => {
    await withdrawn(/^Kafka denies this user something \(GROUP_AUTHORIZATION_FAILED\)/,
      broker.deny, broker.permit)
  })
})

describe('stores over TLS, with a user and a password in the address', () => {
  let redis: RedisServer
  let redisPort: number
  let front: Server
  beforeAll(async () => {
    redisPort = await freePort()
    redis = await startRedisServer([
      '--tls-port', String(redisPort), '--tls-cert-file', files.cert, '--tls-key-file', files.key,
      '--tls-ca-cert-file', files.cert, '--tls-auth-clients', 'no',
      '--user', USER.username, 'on', `>${USER.password}`, '~*', '&*', '+@all',
      '--requirepass', 'of-the-default-user',
    ])
    front = createSecureFront(new URL(inject('stack').CLICKHOUSE_URL ?? ''), USER, certificate)
    await new Promise<void>(resolve => { front.listen(0, '127.0.0.1', resolve) })
  })
  afterAll(async () => {
    front?.close()
    await redis?.stop()
  })
  const asked = async (account: string, more: Readonly<Record<string, string>> = trusting) => {
    const found: StoreNews[] = []
    const child = startSecureChild<StoreNews>('secure-stores.ts', {
      REDIS_STATE_URL: `rediss://${account}@127.0.0.1:${redisPort}`,
      CLICKHOUSE_URL: `https://${account}@127.0.0.1:${(front.address() as AddressInfo).port}`,
      ...more,
    })
    await within(child, async ({ news }) => {
      await vi.waitFor(() => expect(news).toHaveLength(1), WITHIN)
      found.push(...news)
    })
    return found[0]
  }

  it('are asked', async () => {
    expect(await asked(IN_ADDRESS)).toEqual({ redis: 'PONG', clickhouse: '[{"sum":2}]' })
  })

  it('refuse a wrong password, and are refused without their authority', async () => {
    expect(await asked(`${USER.username}:wrong`)).toEqual({
      redis: expect.stringMatching(/^failed: (NOAUTH|WRONGPASS)/),
      clickhouse: 'failed: ClickHouse refuses to sign this user in: check user and password in ' +
        'CLICKHOUSE_URL',
    })
    expect(await asked(IN_ADDRESS, {})).toEqual({
      redis: expect.stringMatching(/^failed: /),
      clickhouse: expect.stringMatching(/^failed: The certificate of ClickHouse is not trusted: /),
    })
  })
})
