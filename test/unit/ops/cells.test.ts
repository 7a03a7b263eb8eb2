import { describe, expect, it } from 'vitest'
import { cellsText, listCells, type StateCell } from '../../../services/ops/cells.ts'
import { movedText } from '../../../services/ops/cells-move.ts'
import { masterAt, parseNodes } from '../../../services/ops/cluster-nodes.ts'
import { TENANTS_KEY } from '../../../services/money/redis-keys.ts'
import type { MovedSlot } from '../../../services/ops/slot-move.ts'

const paint = (style: string, text: string) => style === 'red' ? `!${text.trim()}!` : text

const NODES = `
a1 127.0.0.1:7001@17001,one myself,master - 0 0 1 connected 0-5460 7000 [93->-b2] [77-<-c3]
b2 127.0.0.1:7002@17002 master - 0 0 2 connected 5461-6999
c3 127.0.0.1:7003@17003 master,fail - 0 0 3 disconnected
d4 127.0.0.1:7004@17004 slave a1 0 0 1 connected
`

describe('the nodes of a cluster', () => {
  const nodes = parseNodes(NODES)

  it('are read with their slots, roles and moves', () => {
    expect(nodes.map(({ id, address, slots, isMaster, isFailed }) =>
      [id, address, slots, isMaster, isFailed])).toEqual([
      ['a1', '127.0.0.1:7001', 5_462, true, false], ['b2', '127.0.0.1:7002', 1_539, true, false],
      ['c3', '127.0.0.1:7003', 0, true, true], ['d4', '127.0.0.1:7004', 0, false, false],
    ])
    expect([0, 5_460, 5_461, 7_000].map(slot => nodes[0]?.hasSlot(slot)))
      .toEqual([true, true, false, true])
    expect([...nodes[0]?.migrating ?? []]).toEqual([[93, 'b2']])
  })

  it('are found by the address of a master that responds, and no other', () => {
    expect(masterAt(nodes, '127.0.0.1:7002').id).toBe('b2')
    for (const address of ['127.0.0.1:7003', '127.0.0.1:7004', 'x:1']) {
      expect(() => masterAt(nodes, address)).toThrow(/The masters are: 127.0.0.1:7001, 127/)
    }
  })
})

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

describe('the result of a move', () => {
  const balance = {
    availableMicros: 70, reservedMicros: 20, chargedMicros: 10, fundedMicros: 100, seq: 4,
  }
  const moved: MovedSlot = {
    org: 'org_1',
    slot: 93,
    from: 'a:1',
    to: 'b:2',
    sharedWith: ['org_9'],
    keys: 12,
    tenants: [{
      tenant: 'org_1.live', before: balance, after: balance, frozen: '', isIntact: true,
    }],
  }

  it('names the organizations of the slot and the balances', () => {
    expect(movedText(moved)).toMatch(/^Slot 93 of org_1 moved from a:1 to b:2, 12 keys\. It also /)
    expect(movedText(moved)).toContain('It also has org_9.')
    expect(movedText(moved)).toContain('All balances are those of before')
    expect(movedText({ ...moved, from: 'b:2', sharedWith: [] }))
      .toMatch(/^Slot 93 of org_1 is at b:2\. No other organization shares it\./)
  })

  it('says so when a balance differs', () => {
    const [tenant] = moved.tenants
    if (tenant === undefined) throw new Error('no tenant')
    const text = movedText({ ...moved, tenants: [{ ...tenant, isIntact: false }] })
    expect(text).toContain('DIFFERS')
    expect(text).toContain('A balance differs')
  })
})
