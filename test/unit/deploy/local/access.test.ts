import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, getCACertificates } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { makeSecure, openAccess, readAccess, signInOf } from '../../../../deploy/local/access.ts'
import { argumentsFile, kafkaProperties, scramArguments }
  from '../../../../deploy/local/kafka-settings.ts'
import { loadSecrets } from '../../../../deploy/local/launcher/secrets.ts'
import { isSignedIn } from '../../../../deploy/local/sign-in.ts'
import { STAGES } from '../../../../services/topology.ts'
import { newFolder } from '../../../support/folder.ts'
import { listen } from '../../../support/listen.ts'

const folder = newFolder('access-')

const secure = (name: string) => {
  makeSecure(join(folder, name))
  const access = openAccess(join(folder, name))
  if (access === undefined) throw new Error('the folder is secure')
  return access
}

describe('the access to a secure stack', () => {
  it('is made once, with a password for each part and stage, and kept from others', () => {
    const first = secure('once')
    const second = secure('once')
    expect(second.accounts).toEqual(first.accounts)
    const passwords = Object.values(first.accounts).map(({ password }) => password)
    expect(passwords).toHaveLength(7 + STAGES.length)
    expect(new Set(passwords).size).toBe(passwords.length)
    expect(passwords.every(password => /^[\w-]{32}$/.test(password))).toBe(true)
    const files = [...Object.values(first.files), join(first.folder, 'accounts.json')]
    expect(files.map(file => statSync(file).mode & 0o777)).toEqual([0o600, 0o600, 0o600, 0o600])
    expect(readAccess(second.folder)).toEqual(second)
  })

  it('has a certificate that is new with each start and trusted by this process', () => {
    const [first, second] = [secure('trust'), secure('trust')]
    const names = [first, second].map(({ certificate: { cert } }) => new X509Certificate(cert))
    expect(names.map(one => one.checkIP('127.0.0.1'))).toEqual(['127.0.0.1', '127.0.0.1'])
    expect(names[0]?.serialNumber).not.toBe(names[1]?.serialNumber)
    const trusted = getCACertificates('default').map(text => text.trim())
    expect(trusted).toContain(second.certificate.cert.trim())
    expect(readFileSync(second.files.authority, 'utf8')).toContain(second.certificate.cert)
  })

  it('is trusted as well as that of every other stack that this process has opened', async () => {
    for (const name of ['one', 'two', 'three', 'four']) {
      const { certificate: { cert, key } } = secure(name)
      const server = createServer({ cert, key }, socket => socket.end())
      const client = connect({ host: '127.0.0.1', port: await listen(server) })
      await once(client, 'secureConnect')
      client.destroy()
      server.close()
    }
  })

  it('is among the secrets of the folder as far as services read it from there', () => {
    const { accounts } = secure('secrets')
    expect(loadSecrets(join(folder, 'secrets'))).toMatchObject({
      MESSAGE_KEY_ACTIVE: '1',
      KAFKA_TLS: 'true',
      KAFKA_SASL_MECHANISM: 'scram-sha-512',
      KAFKA_SASL_USERNAME: 'admin',
      KAFKA_SASL_PASSWORD: accounts.kafka.password,
    })
  })

  it('lets the services of each stage sign in as their own user, ingest at the cache too', () => {
    const { accounts } = secure('stages')
    const { redisCache, redisLimits, verify } = accounts
    const cache = (password: string, user: string) => `rediss://${user}:${password}@127.0.0.1:1`
    const signIn = signInOf({ accounts }, {
      REDIS_CACHE_URL: cache(redisCache.password, redisCache.username),
    })
    expect(Object.keys(signIn)).toEqual(STAGES)
    expect(signIn['verify']).toEqual({
      KAFKA_SASL_USERNAME: 'verify', KAFKA_SASL_PASSWORD: verify.password,
    })
    expect(signIn['ingest']).toMatchObject({
      KAFKA_SASL_USERNAME: 'ingest', REDIS_CACHE_URL: cache(redisLimits.password, 'ingest'),
    })
  })

  it('cannot be added to a folder later, nor is it on by default', () => {
    loadSecrets(join(folder, 'open'))
    expect(openAccess(join(folder, 'open'))).toBeUndefined()
    expect(() => makeSecure(join(folder, 'open'))).toThrow(
      /holds a stack without passwords: delete it, or give another folder with --data/)
  })

  it('opens to the account alone', () => {
    const { accounts: { clickhouse, registry } } = secure('opens')
    const asking = (authorization?: string) =>
      isSignedIn({ headers: { authorization } } as never, clickhouse)
    const basic = ({ username, password }: typeof clickhouse) =>
      `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
    expect([asking(basic(clickhouse)), asking(basic(registry)), asking('Basic '), asking()])
      .toEqual([true, false, false, false])
  })
})

describe('a broker of a secure stack', () => {
  const ports = { broker: 1, controller: 2 }

  it('refuses connections without TLS', () => {
    const access = secure('broker')
    const text = kafkaProperties(ports, '/d', { id: 1, cluster: [ports], access })
    const lines = text.split('\n')
    expect(lines).toContain('listeners=SASL_SSL://127.0.0.1:1,CONTROLLER://127.0.0.1:2')
    expect(lines).toContain('listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:SSL')
    expect(lines).toContain('listener.name.controller.ssl.client.auth=required')
    const { subject } = new X509Certificate(access.certificate.cert)
    expect(lines).toContain(`super.users=User:broker;User:admin;User:${subject}`)
    expect(text).not.toMatch(/PLAINTEXT/)
    expect(lines.every(line => line === '' || /^[a-z0-9_.-]+=/.test(line))).toBe(true)
  })

  it('is formatted with its users, in a file instead of arguments', () => {
    const access = secure('format')
    const { broker, kafka } = access.accounts
    const users = [broker, kafka, ...STAGES.map(stage => access.accounts[stage])]
    expect(users.map(({ username }) => username)).toEqual(['broker', 'admin', ...STAGES])
    expect(scramArguments(access)).toEqual(users.flatMap(({ username, password }) =>
      ['--add-scram', `SCRAM-SHA-512=[name=${username},password=${password}]`]))
    expect(scramArguments(undefined)).toEqual([])
    const file = join(folder, 'words')
    expect(argumentsFile(file, ['-cp', 'a b', 'say "x\\y"'])).toBe(`@${file}`)
    expect(readFileSync(file, 'utf8')).toBe('"-cp"\n"a b"\n"say \\"x\\\\y\\""\n')
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })
})
