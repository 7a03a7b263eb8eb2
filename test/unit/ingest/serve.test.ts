import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { get } from 'node:https'
import { tmpdir } from 'node:os'
import Fastify from 'fastify'
import { expect, it } from 'vitest'
import { freePort } from '../../../deploy/local/ports.ts'
import { ingestConfig } from '../../../services/ingest/config.ts'
import { countRequests, serve } from '../../../services/ingest/serve.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { selfSigned } from '../../../deploy/local/certificate.ts'
import { doubles } from './doubles.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'

it('the interface is served on both ports until both are closed', async () => {
  const folder = mkdtempSync(`${tmpdir()}/verification-jobs-serve-`)
  const { cert, key } = selfSigned('served')
  writeFileSync(`${folder}/cert.pem`, cert)
  writeFileSync(`${folder}/key.pem`, key)
  const [plain, tls] = [await freePort(), await freePort()]
  const settings = loadConfig(ingestConfig, {
    ...STAGE_ENVIRONMENT,
    CACHE_SECRET_ACTIVE: '1',
    PORT_HTTP: String(plain),
    PORT_HTTPS: String(tls),
    TLS_CERT_FILE: `${folder}/cert.pem`,
    TLS_KEY_FILE: `${folder}/key.pem`,
  })
  const closers: (() => unknown)[] = []
  const log = createLog('ingest', { level: 'silent' })
  const metrics = createMetrics()
  await serve(doubles(), settings, { log, metrics, onStop: close => { closers.push(close) } })
  rmSync(folder, { recursive: true })
  const askTls = () => new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port: tls, path: '/changelog', ca: cert, agent: false }, answer => {
      answer.resume()
      resolve(answer.statusCode)
    }).once('error', reject)
  })
  const askPlain = async () => (await fetch(`http://127.0.0.1:${plain}/changelog`, {
    headers: { connection: 'close' },
  })).status
  expect([await askPlain(), await askTls()]).toEqual([200, 200])
  expect(await metrics.text())
    .toContain('http_requests_total{method="GET",route="/changelog",status="200"} 2')
  expect(closers).toHaveLength(1)
  await closers[0]?.()
  await expect(askTls()).rejects.toThrow('ECONNREFUSED')
  await expect(askPlain()).rejects.toThrow('fetch failed')
})

it('requests are counted under their route, never under the address that was sent', async () => {
  const app = Fastify()
  const metrics = createMetrics()
  app.get('/jobs/:id', async (_request, reply) => await reply.code(404).send())
  countRequests(app, metrics)
  await app.inject('/jobs/1?key=secret')
  await app.inject('/jobs/2')
  await app.inject('/nowhere/3')
  const text = await metrics.text()
  expect(text).toContain('http_requests_total{method="GET",route="/jobs/:id",status="404"} 2')
  expect(text).toContain('http_requests_total{method="GET",route="none",status="404"} 1')
  expect(text).toContain('http_request_seconds_count{method="GET",route="/jobs/:id"} 2')
  expect(text).not.toMatch(/secret|nowhere/)
})
