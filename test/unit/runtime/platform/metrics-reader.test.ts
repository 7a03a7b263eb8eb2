import { describe, expect, it } from 'vitest'
import { resolveAllAddresses } from '../../../../services/runtime/platform/metrics-reader.ts'

const HOSTS: Record<string, readonly (readonly [string, 4 | 6])[]> = {
  'jobs-metrics': [['10.0.0.9', 4], ['10.0.0.2', 4]],
  both: [['fd00::2', 6], ['10.0.0.2', 4], ['fd00::1', 6]],
  localhost: [['::1', 6], ['127.0.0.1', 4]],
  '127.0.0.1': [['127.0.0.1', 4]],
}

const find = async (host: string) => {
  const found = HOSTS[host]
  if (found === undefined) throw new Error('ENOTFOUND')
  return found.map(([address, family]) => ({ address, family }))
}

describe('the resolution of URLs', () => {
  it('returns one URL per address of the host', async () => {
    expect(await resolveAllAddresses(['http://jobs-metrics:9464/metrics'], find))
      .toEqual(['http://10.0.0.2:9464/metrics', 'http://10.0.0.9:9464/metrics'])
  })

  it('returns a dual-stack host once', async () => {
    expect(await resolveAllAddresses(['http://both:9464/metrics'], find))
      .toEqual(['http://[fd00::1]:9464/metrics', 'http://[fd00::2]:9464/metrics'])
  })

  it('keeps a URL with one address, an unknown host, or HTTPS', async () => {
    const same = [
      'http://127.0.0.1:9101/metrics', 'http://localhost:9101/metrics', 'http://gone:9464/metrics',
      'https://jobs-metrics:9464/metrics',
    ]
    expect(await resolveAllAddresses(same, find)).toEqual(same)
  })
})
