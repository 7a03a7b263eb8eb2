import { describe, expect, it } from 'vitest'
import { cellsText, listCells, type StateCell } from '../../../services/admin/cells.ts'
import { TENANTS_KEY } from '../../../services/money/redis-keys.ts'

const paint = (style: string, text: string) => style === 'red' ? `!${text.trim()}!` : text

const INFO = [
  'run_id:abcdef0123456789', 'used_memory:2500000', 'aof_enabled:1',
  'slave0:ip=10.0.0.2,port=6379,state=online,offset=10,lag=1',
].join('\r\n')

/** One Redis with three tenants: one unlocked, one locked, one frozen; and one without a wallet. */
function redisDouble (info: () => Promise<string> = async () => INFO) {
  const wallets: Record<string, readonly (string | null)[]> = {
    'w:{org_1}.live': ['abcdef0123456789', null, '3'],
    'w:{org_2}.live': ['of another run', null, '3'],
    'w:{org_3}.live': ['abcdef0123456789', 'the journal has more', '3'],
  }
  return {
    options: { host: 'localhost', port: 6_379 },
    info,
    config: async () => ['appendfsync', 'everysec'],
    smembers: async (key: string) => key === TENANTS_KEY
      ? ['org_1.live', 'org_2.live', 'org_3.live', 'org_3.test']
      : [],
    hmget: async (key: string) => wallets[key] ?? [null, null, null],
  } as never
}

describe('the list of cells', () => {
  it('has one line for a single Redis', async () => {
    const cells = await listCells(redisDouble())
    expect(cells).toEqual([{
      address: 'localhost:6379',
      slots: 16_384,
      tenants: 4,
      lockedTenants: 1,
      frozenTenants: 1,
      memoryBytes: 2_500_000,
      persistence: 'everysec',
      run: 'abcdef0123456789',
      replicas: [{ address: '10.0.0.2:6379', isOnline: true, lagSeconds: 1 }],
    } satisfies StateCell])
    const [, line = ''] = cellsText(cells, paint).split('\n')
    expect(line).toMatch(/^localhost:6379 +16,384 +4 +!1! +!1! +2\.5 MB +!everysec! +10\.0\.0\.2/)
    expect(line).toMatch(/1 s behind +abcdef01$/)
  })

  it('shows a server that does not respond', async () => {
    const down = async () => { throw new Error('Connection is closed.') }
    const cells = await listCells(redisDouble(down))
    expect(cells).toMatchObject([{ tenants: 4, memoryBytes: null, run: null, replicas: null }])
    expect(cellsText(cells, paint)).toContain('!no answer!')
  })
})
