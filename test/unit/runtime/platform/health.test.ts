import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { closeServer, serveHealth } from '../../../../services/runtime/platform/run.ts'
import { createLog } from '../../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'

describe('the health server', () => {
  it('serves liveness, readiness and metrics on loopback by default', async () => {
    let isReady = false
    const [metrics, log] = [createMetrics(), createLog('x', { level: 'silent' })]
    const server = await serveHealth({ port: 0, ready: () => isReady, metrics, log })
    const { address, port } = server.address() as AddressInfo
    const statusOf = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status
    expect(address).toBe('127.0.0.1')
    expect([await statusOf('/healthz'), await statusOf('/readyz?x')]).toEqual([200, 503])
    isReady = true
    expect([await statusOf('/readyz'), await statusOf('/other')]).toEqual([200, 404])
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`)
    expect(answer.headers.get('content-type')).toContain('version=0.0.4')
    expect(await answer.text()).toContain('# TYPE stage_rows_total counter')
    await closeServer(server)
    await expect(statusOf('/healthz')).rejects.toThrow()
  })

  it('listens at the configured address', async () => {
    const [metrics, log] = [createMetrics(), createLog('x', { level: 'silent' })]
    const server = await serveHealth({ host: '0.0.0.0', port: 0, ready: () => true, metrics, log })
    expect((server.address() as AddressInfo).address).toBe('0.0.0.0')
    await closeServer(server)
  })
})
