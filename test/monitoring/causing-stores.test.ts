import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { Clickhouse } from '../../services/runtime/platform/clickhouse.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { withWorkspace } from '../../services/admin/deps.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { causing } from '../support/deploy/causing.ts'
import { whileFrozen } from '../support/stacks/processes.ts'
import { stackEnv } from '../support/stacks/stack.ts'

const env = stackEnv()
const redis = closeAfterAll(openRedis(env.REDIS_STATE_URL ?? ''))
const clickhouse = closeAfterAll(new Clickhouse(env.CLICKHOUSE_URL ?? ''))
const { environment, untilFiring, untilOver, partOf } = await causing()
/** Of a table and of a key. */
const NAME = 'filled_by_a_test'

const childOf = (pid: number) =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim())

describe('an alert fires, and ends with its cause', () => {
  it('for a Redis that is nearly full, until it has more memory', async () => {
    // Large compared with transient buffers, and sent through none.
    await redis.setrange(NAME, 20_000_000, 'x')
    const used = Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1])
    await redis.config('SET', 'maxmemory', Math.round(used / 0.85))
    await untilFiring('RedisMemoryHigh')
    await redis.config('SET', 'maxmemory', 0)
    await untilOver('RedisMemoryHigh')
    await redis.del(NAME)
  })

  it('for a rewrite of the append-only file that fails, until one succeeds', async () => {
    // Slow enough to be killed.
    await redis.config('SET', 'rdb-key-save-delay', 100_000)
    await redis.call('BGREWRITEAOF')
    const child = () => childOf(partOf('redis-state'))
    await expect.poll(child).toBeGreaterThan(0)
    process.kill(child(), 'SIGKILL')
    await redis.config('SET', 'rdb-key-save-delay', 0)
    await untilFiring('RedisNotPersisted')
    await redis.call('BGREWRITEAOF')
    await untilOver('RedisNotPersisted')
  })

  it('for a cache Redis that hangs', async () => {
    await whileFrozen(partOf('redis-cache'), () => untilFiring('StoresUnknown'))
    await untilOver('StoresUnknown')
  })

  it('for parts and a delete that wait for merges, until merges continue', async () => {
    const command = (query: string) => clickhouse.command(query)
    await command(`CREATE TABLE ${NAME} (a UInt8) ENGINE = MergeTree ORDER BY a`)
    await command(`SYSTEM STOP MERGES ${NAME}`)
    await command(`INSERT INTO ${NAME} SELECT 1 FROM numbers(120) SETTINGS max_block_size = 1,
      min_insert_block_size_rows = 1, min_insert_block_size_bytes = 1`)
    await command(`ALTER TABLE ${NAME} DELETE WHERE a = 1 SETTINGS mutations_sync = 0`)
    await untilFiring('ClickhousePartsMany', 'ClickhouseMutationLate')
    await command(`SYSTEM START MERGES ${NAME}`)
    await untilOver('ClickhousePartsMany', 'ClickhouseMutationLate')
    await command(`DROP TABLE ${NAME}`)
  })

  it('for a journal that is not copied, until ClickHouse is back', async () => {
    const { orgId, breaches } = environment
    await whileFrozen(partOf('clickhouse'), async () => {
      await withWorkspace(env, async ({ wallet }) => {
        for (let serial = 0; serial < 30; serial++) {
          const movement = { id: `copied-${serial}`, amountMicros: 1, reason: 'test' }
          await wallet.topUp(`${orgId}.live`, movement)
        }
      })
      await untilFiring('JournalCopyBehind')
    })
    await untilOver('JournalCopyBehind')
    expect(await breaches()).toEqual([])
  })
})
