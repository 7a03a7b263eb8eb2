import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { get as getPlain, type IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { networkInterfaces } from 'node:os'
import { text } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { selfSigned } from '../../deploy/local/certificate.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { startAll } from '../support/stacks/services.ts'
import { stackEnv } from '../support/stacks/stack.ts'
import { newFolder } from '../support/folder.ts'

let trusted = ''
const folder = newFolder('verification-jobs-https-')

/** Puts a new pair where the service reads it, and trusts it. */
function renew (name: string): void {
  const { cert, key } = selfSigned(name)
  writeFileSync(`${folder}/cert.pem`, cert)
  writeFileSync(`${folder}/key.pem`, key)
  trusted = cert
}

renew('first')
const port = await freePort()
const env = stackEnv()
const services = closeAfterAll(await startAll({
  env,
  // Nothing here comes to the pipeline.
  stages: ['ingest'],
  overrides: {
    HOST: '0.0.0.0',
    PORT_HTTPS: String(port),
    TLS_CERT_FILE: `${folder}/cert.pem`,
    TLS_KEY_FILE: `${folder}/key.pem`,
    TLS_RELOAD_MS: '3600000',
  },
}))
const keys = (await createDemo(env)).keys

type Sent = { readonly method?: string, readonly key?: string, readonly body?: unknown }

async function ask (path: string, { method = 'GET', key = keys.live, body }: Sent = {}) {
  const sent = request({
    host: '127.0.0.1',
    port,
    path,
    method,
    ca: trusted,
    agent: false,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  })
  sent.end(body === undefined ? undefined : JSON.stringify(body))
  const [answer] = await once(sent, 'response') as [IncomingMessage]
  const name = (answer.socket as TLSSocket).getPeerCertificate().subject.CN
  const { statusCode: status, headers } = answer
  return { status, name, headers, json: parsed(await text(answer)) }
}

const parsed = (body: string) => body === '' ? undefined : JSON.parse(body)

describe('the listener of TLS', () => {
  it('serves the interface to a client that trusts its certificate', async () => {
    expect(await ask('/api/v1/balance')).toMatchObject({
      status: 200, name: 'first', json: { currency: 'USD' }, headers: { 'ratelimit-limit': '200' },
    })
    const head = await ask('/api/v1/services', { method: 'HEAD' })
    expect([head.status, head.json]).toEqual([200, undefined])
    expect(Number(head.headers['content-length'])).toBeGreaterThan(100)
    const options = await ask('/api/v1/jobs', { method: 'OPTIONS' })
    expect([options.status, options.headers.allow]).toEqual([204, 'POST, GET, HEAD, OPTIONS'])
  })

  it('loads a renewed certificate on SIGHUP without an interruption', async () => {
    renew('second')
    services.kill('ingest-1', 'SIGHUP')
    await expect.poll(async () => await ask('/').then(({ name }) => name, () => ''))
      .toBe('second')
    expect(services.list()).toMatchObject([{ name: 'ingest-1', restarts: 0 }])
  })

  it('leaves plain HTTP to this machine alone', async () => {
    const plainPort = Number(new URL(services.baseUrl).port)
    const addresses = Object.values(networkInterfaces()).flat()
      .filter(it => it?.internal === false && it.family === 'IPv4').map(it => it?.address)
    const plain = async (host: string) => {
      const headers = { authorization: `Bearer ${keys.live}` }
      const sent = getPlain({ host, port: plainPort, path: '/api/v1/balance', headers })
      const [answer] = await once(sent, 'response') as [IncomingMessage]
      return [answer.statusCode, parsed(await text(answer)).error?.code]
    }
    expect(await plain('127.0.0.1')).toEqual([200, undefined])
    // A machine without a network has no address to refuse.
    for (const address of addresses) {
      expect([address, ...await plain(address ?? '')]).toEqual([address, 403, 'https_required'])
    }
  })
})
