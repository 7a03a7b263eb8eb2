import { writeFileSync } from 'node:fs'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Cluster, Redis } from 'ioredis'
import { selfSigned } from '../../deploy/local/certificate.ts'
import { openSubscriber } from '../../services/runtime/engine/connections.ts'
import { connectRedis, type RedisClient } from '../../services/runtime/platform/redis.ts'
import { eventually } from '../support/eventually.ts'
import { newFolder } from '../support/folder.ts'
import { startRedisCluster, type RedisCluster } from '../support/redis/cluster.ts'

/** Of a host name alone, as that of the discovery endpoint of a managed cluster. */
const certificate = selfSigned('redis-discovery', undefined, false)
const folder = newFolder('redis-credentials-')
const files = { cert: `${folder}/cert.pem`, key: `${folder}/key.pem` }
const passwordFile = `${folder}/password`
const opened: RedisClient[] = []
let servers: RedisCluster
let admin: Cluster

const onEach = (...words: readonly [string, ...string[]]) => Promise.all(
  admin.nodes('master').map(node => node.call(...words)))
const connect = async (host: string, more: object) => {
  const redis = await connectRedis(`rediss-cluster://jobs@${host}:${servers.securePort}`, more)
  opened.push(redis)
  return redis as Cluster
}

beforeAll(async () => {
  writeFileSync(files.cert, certificate.cert)
  writeFileSync(files.key, certificate.key)
  writeFileSync(passwordFile, 'first\n')
  setDefaultCACertificates([...getCACertificates('default'), certificate.cert])
  servers = await startRedisCluster([
    '--tls-cert-file', files.cert, '--tls-key-file', files.key, '--tls-ca-cert-file', files.cert,
    // Every client has to show a certificate.
    '--tls-auth-clients', 'yes',
  ])
  admin = await servers.connect()
  await onEach('ACL', 'SETUSER', 'jobs', 'on', '>first', '~*', '&*', '+@all')
})

afterAll(async () => {
  for (const redis of opened) redis.disconnect()
  await servers?.stop()
})

const client = { passwordFile, certFile: files.cert, keyFile: files.key }

it('nodes that announce addresses are trusted by the host name of their cluster', async () => {
  const redis = await connect('localhost', client)
  expect(redis.nodes('master').map(({ options }) => options.host))
    .toEqual(Array(3).fill('127.0.0.1'))
  await Promise.all(['a', 'b', 'c', 'd'].map(key => redis.set(key, key)))
  expect(await Promise.all(['a', 'b', 'c', 'd'].map(key => redis.get(key))))
    .toEqual(['a', 'b', 'c', 'd'])
})

it('nodes whose certificate has no host of the URL are not, nor a client without one', async () => {
  const unnamed = await connect('127.0.0.1', client)
  await expect(unnamed.get('a')).rejects.toThrow()
  expect(unnamed.status).not.toBe('ready')
  const uncertified = await connect('localhost', { passwordFile })
  await expect(uncertified.get('a')).rejects.toThrow()
})

it('a cluster and its subscriber sign in by the new password of the file', async () => {
  const redis = await connect('localhost', client)
  const subscriber = openSubscriber(redis, { onStop: () => {} })
  opened.push(subscriber)
  const heard: string[] = []
  subscriber.on('message', (_channel, text: string) => { heard.push(text) })
  await subscriber.subscribe('news')
  await onEach('ACL', 'SETUSER', 'jobs', '>second')
  writeFileSync(passwordFile, 'second\n')
  await onEach('ACL', 'SETUSER', 'jobs', '<first')
  // The connections that are there stay signed in.
  expect(await redis.set('e', '1')).toBe('OK')
  await onEach('CLIENT', 'KILL', 'USER', 'jobs')
  await eventually(async () => {
    await Promise.all(['e', 'f', 'g'].map(key => redis.set(key, '2')))
    await redis.publish('news', 'rotated')
    expect(heard).toContain('rotated')
  })
})

it('a single Redis and its subscriber sign in by the new password of the file', async () => {
  const [node] = admin.nodes('master')
  const { host = '', port = 0 } = node?.options ?? {}
  const redis = await connectRedis(`redis://jobs:unused@${host}:${port}`, { passwordFile })
  const subscriber = openSubscriber(redis, { onStop: () => {} })
  opened.push(redis, subscriber)
  const heard: string[] = []
  subscriber.on('message', (_channel, text: string) => { heard.push(text) })
  await subscriber.subscribe('news')
  expect(redis).toBeInstanceOf(Redis)
  await onEach('ACL', 'SETUSER', 'jobs', '>third', '<second')
  writeFileSync(passwordFile, 'third\n')
  await onEach('CLIENT', 'KILL', 'USER', 'jobs')
  await eventually(async () => {
    expect(await redis.ping()).toBe('PONG')
    await redis.publish('news', 'rotated')
    expect(heard).toContain('rotated')
  })
})
