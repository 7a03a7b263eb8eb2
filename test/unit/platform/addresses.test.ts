import { describe, expect, it } from 'vitest'
import { everyAddress } from '../../../services/platform/addresses.ts'

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

describe('addresses', () => {
  it('are those of every machine behind a name', async () => {
    expect(await everyAddress(['http://jobs-metrics:9464/metrics'], find))
      .toEqual(['http://10.0.0.2:9464/metrics', 'http://10.0.0.9:9464/metrics'])
  })

  it('count a machine with two kinds of address once', async () => {
    expect(await everyAddress(['http://both:9464/metrics'], find))
      .toEqual(['http://[fd00::1]:9464/metrics', 'http://[fd00::2]:9464/metrics'])
  })

  it('stay as they are for one machine, an unknown name, and a certificate', async () => {
    const same = [
      'http://127.0.0.1:9101/metrics', 'http://localhost:9101/metrics', 'http://gone:9464/metrics',
      'https://jobs-metrics:9464/metrics',
    ]
    expect(await everyAddress(same, find)).toEqual(same)
  })
})
