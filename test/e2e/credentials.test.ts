import { writeFileSync } from 'node:fs'
import { setDefaultCACertificates, getCACertificates } from 'node:tls'
import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { selfSigned } from '../../deploy/local/certificate.ts'
import { freePort } from '../../deploy/local/ports.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { createClient } from '../../services/client/client.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { newFolder } from '../support/folder.ts'
import { startRedisServer } from '../support/redis/server.ts'
import { breachesOf, runJob, type Finished } from '../support/stacks/environment.ts'
import { startAlone } from '../support/stacks/services.ts'
import { testStack } from '../support/stacks/stack.ts'

const folder = newFolder('credentials-')
const pathOf = (name: string) => `${folder}/${name}`
const [first, second, firstClient, secondClient] =
  ['first', 'second', 'first-client', 'second-client'].map(name => selfSigned(name)) as
    ReturnType<typeof selfSigned>[] & { length: 4 }
const authorities = pathOf('authorities.pem')
const passwordFile = pathOf('password')

const putCertificate = (name: string, { cert, key }: ReturnType<typeof selfSigned>) => {
  writeFileSync(pathOf(`${name}.key`), key)
  writeFileSync(pathOf(`${name}.pem`), cert)
}

putCertificate('server', first!)
putCertificate('client', firstClient!)
writeFileSync(pathOf('clients.pem'), firstClient!.cert)
writeFileSync(authorities, first!.cert)
writeFileSync(passwordFile, 'first')
setDefaultCACertificates([...getCACertificates('default'), first!.cert, second!.cert])
const port = await freePort()
const redis = closeAfterAll(await startRedisServer([
  '--tls-port', String(port), '--tls-auth-clients', 'yes',
  '--tls-cert-file', pathOf('server.pem'), '--tls-key-file', pathOf('server.key'),
  '--tls-ca-cert-file', pathOf('clients.pem'),
  '--user', 'jobs', 'on', '>first', '~*', '&*', '+@all',
]))
const admin = closeAfterAll(new Redis(redis.socket))
const stack = testStack()
const url = `rediss://jobs@127.0.0.1:${port}`
const env = {
  ...stack.env,
  NODE_EXTRA_CA_CERTS: authorities,
  REDIS_STATE_URL: url,
  REDIS_STATE_PASSWORD_FILE: passwordFile,
  REDIS_CACHE_URL: url,
  REDIS_CACHE_PASSWORD_FILE: passwordFile,
  REDIS_TLS_CERT_FILE: pathOf('client.pem'),
  REDIS_TLS_KEY_FILE: pathOf('client.key'),
}
const services = closeAfterAll(await startAlone({ env, servicesDir: stack.servicesDir }))

const killConnections = async () => Number(await admin.call('CLIENT', 'KILL', 'USER', 'jobs'))

it('password and certificates of Redis change under load, and no job fails', async () => {
  const { orgId, keys } = await createDemo(env)
  const client = createClient({ baseUrl: services.baseUrl, apiKey: keys.live })
  const jobs: Finished[] = []
  const over = new AbortController()
  const load = async (line: number) => {
    for (let number = 0; !over.signal.aborted; number++) {
      const inputs = [`+1212736${5_000 + line}`, `+1646555${String(number).padStart(4, '0')}`]
      jobs.push(await runJob(client, { service: 'phone-validation', forceFresh: true, inputs }))
    }
  }
  const lines = Promise.all([1, 2, 3].map(load))
  // A failure is seen at the end, not as one that nobody handles.
  lines.catch(() => {})
  const someMore = async () => {
    const before = jobs.length
    await Promise.race([lines, eventually(() => expect(jobs.length).toBeGreaterThan(before + 5))])
  }
  await someMore()

  await admin.call('ACL', 'SETUSER', 'jobs', '>second')
  writeFileSync(passwordFile, 'second')
  await admin.call('ACL', 'SETUSER', 'jobs', '<first')
  expect(await killConnections()).toBeGreaterThan(3)
  await someMore()

  writeFileSync(pathOf('clients.pem'), `${firstClient!.cert}${secondClient!.cert}`)
  putCertificate('server', second!)
  putCertificate('client', secondClient!)
  writeFileSync(authorities, `${first!.cert}${second!.cert}`)
  await admin.call('CONFIG', 'SET', 'tls-cert-file', pathOf('server.pem'),
    'tls-key-file', pathOf('server.key'), 'tls-ca-cert-file', pathOf('clients.pem'))
  expect(await killConnections()).toBeGreaterThan(3)
  await someMore()
  writeFileSync(pathOf('clients.pem'), secondClient!.cert)
  await admin.call('CONFIG', 'SET', 'tls-ca-cert-file', pathOf('clients.pem'))
  expect(await killConnections()).toBeGreaterThan(3)
  await someMore()

  over.abort()
  await lines
  expect(new Set(jobs.map(({ job }) => job.status))).toEqual(new Set(['completed']))
  expect(jobs.filter(({ job, rows }) => job.totalRows !== 2 || rows.length !== 2)).toEqual([])
  expect(services.list().map(({ restarts }) => restarts)).toEqual(services.list().map(() => 0))
  expect(await breachesOf(env, orgId)).toEqual([])
})
