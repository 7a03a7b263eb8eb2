import { expect, it } from 'vitest'
import { connectErasing } from '../../../services/ledger/erase-deps.ts'
import { messageKeysOf } from '../../support/signed.ts'

it('connectErasing does nothing while another ledger leads, and stops', async () => {
  const secret = Buffer.alloc(32).toString('base64')
  const asked = Promise.withResolvers<void>()
  let isStopped = false
  const watched: string[] = []
  const erasing = connectErasing({
    KAFKA_BROKERS: ['broker:9092'],
    ...messageKeysOf(),
    INSTANCE: 'i1',
    RESULTS_ROOT_KEYS: { 1: secret },
    RESULTS_ROOT_KEY_ACTIVE: '1',
    CACHE_SECRETS: { 1: secret },
    ERASE_EVERY_MS: 60_000,
  }, {
    bus: { producer: () => ({}) },
    state: {},
    cache: { on: () => {} },
    clickhouse: {},
    clock: {},
    metrics: { watchAll: (name: string) => { watched.push(name) } },
    isLeader: () => { asked.resolve(); return false },
  } as never)
  await asked.promise
  await erasing.stop().then(() => { isStopped = true })
  expect(isStopped).toBe(true)
  expect(watched).toEqual(['erasures_pending', 'erasure_oldest_seconds'])
})
