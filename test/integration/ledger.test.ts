import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { createJobKeys } from '../../services/jobs/job-keys.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createWire } from '../../services/jobs/wire.ts'
import { connectClickhouse } from '../../services/lib/clickhouse.ts'
import { createKafkaBus } from '../../services/lib/kafka/bus.ts'
import { createKeyRing } from '../../services/lib/key-ring.ts'
import { createLog } from '../../services/lib/log.ts'
import { createMetrics } from '../../services/lib/metrics.ts'
import { connectRedis } from '../../services/lib/redis.ts'
import { createCodec, registrySource } from '../../services/lib/registry.ts'
import { createBacklog } from '../../services/ledger/backlog.ts'
import { sweepParts } from '../../services/ledger/parts.ts'
import { sweep } from '../../services/ledger/sweep.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { createArchive } from '../../services/records/archive.ts'
import { createResultBlocks } from '../../services/records/result-blocks.ts'
import { createResults } from '../../services/records/results.ts'
import { acceptRequest } from '../support/jobs.ts'
import { parseCsv } from '../support/world.ts'

const env = inject('stack')
const brokers = (env.KAFKA_BROKERS ?? '').split(',')
const redis = connectRedis(env.REDIS_STATE_URL ?? '')
const clickhouse = connectClickhouse(env.CLICKHOUSE_URL ?? '')
const codec = createCodec(registrySource(env.SCHEMA_REGISTRY_URL ?? ''))
const ring = createKeyRing({ KEY_RING: { 1: randomBytes(32).toString('base64') }, KEY_ACTIVE: '1' })
const keys = createJobKeys({ redis, ring })
const wire = createWire({ codec, keys })
const clock = { now: () => Date.now(), stop: () => {} }
const bus = createKafkaBus({ brokers, clientId: 'ledger-test', onFatal: () => {} })
const log = createLog('ledger-test', { level: 'silent' })

const config = {
  KAFKA_BROKERS: brokers,
  SCHEMA_REGISTRY_URL: '',
  REDIS_STATE_URL: '',
  CLICKHOUSE_URL: '',
  KEY_RING: {},
  KEY_ACTIVE: '1',
  INSTANCE: 'test',
  PORT_METRICS: 0,
  LOG_LEVEL: 'silent',
  BATCH_MESSAGES: 100,
  SWEEP_EVERY_MS: 10,
  LEFT_OVER_AFTER_MS: 0,
  STALLED_AFTER_MS: 100,
} as const

afterAll(async () => {
  await bus.close()
  redis.disconnect()
  await clickhouse.close()
})

describe('a job that nobody works on', () => {
  it('is failed by the ledger with a complete result file, and its reserve is released', async () => {
    const tenant = `org_${randomUUID()}.live`
    const job = `job_${randomUUID()}`
    const wallet = createWallet(redis)
    await wallet.topUp(tenant, { id: 'first', amountMicros: 50_000, reason: 'test' })
    await keys.create(tenant, job)
    const metrics = createMetrics()
    const parts = sweepParts({ ...config, KAFKA_BROKERS: [...brokers], KEY_RING: {} }, {
      bus, state: redis, clickhouse, codec, clock, wire, log, metrics,
    })
    const accepted = await createJobStore(redis).accept(tenant,
      { ...acceptRequest(job, { freshChecks: 3 }), service: 'telegram', lane: 'bulk' })
    expect(accepted.kind).toBe('accepted')
    const own = {
      ...parts,
      tenants: async () => [tenant],
      outbox: { ...parts.outbox, tenantsWithPending: async () => [tenant] },
      backlog: { waits: async () => false },
      stalledAfterMs: 0,
    }
    expect(await sweep(own)).toBe(0)

    const found = await parts.store.read(tenant, job)
    expect(found).toMatchObject({ status: 'failed', closed: true, chargedMicros: 0 })
    expect(await wallet.balance(tenant)).toMatchObject({ availableMicros: 50_000, reservedMicros: 0 })
    const archived = await createArchive(clickhouse).find(tenant, job)
    const results = createResults({ blocks: createResultBlocks(clickhouse), codec, keys })
    const csv = await Array.fromAsync(
      results.csvStream(tenant, archived!.job, archived!.manifest))
    expect(parseCsv(csv.join('')).map(row => [row['row'], row['status'], row['reason']])).toEqual([
      ['1', 'unknown', 'internal'], ['2', 'unknown', 'internal'], ['3', 'unknown', 'internal'],
    ])
  })
})

describe('the backlog', () => {
  it('is seen by lane and service: a part put off waits, however young', async () => {
    const backlog = createBacklog({ brokers, clientId: 'backlog-test', clock })
    const whatsapp = { lane: 'bulk', service: 'whatsapp' } as const
    expect(await backlog.waits(whatsapp)).toBe(false)
    await bus.producer('test').send([{
      topic: 'rows.later.bulk.whatsapp', key: 'a', value: null, headers: {},
    }])
    expect(await backlog.waits(whatsapp)).toBe(true)
    expect(await backlog.waits({ lane: 'bulk', service: 'telegram' })).toBe(false)
    const later = { now: () => Date.now() + 120_000 }
    const fromLater = createBacklog({ brokers, clientId: 'backlog-test', clock: later })
    await bus.producer('test').send([{
      topic: 'rows.missed.bulk.carrier-single', key: 'a', value: null, headers: {},
    }])
    const carrier = { lane: 'bulk', service: 'carrier-single' } as const
    expect(await backlog.waits(carrier)).toBe(false)
    expect(await fromLater.waits(carrier)).toBe(true)
  })
})
