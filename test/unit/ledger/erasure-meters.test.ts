import { expect, it, vi } from 'vitest'
import { createErasures, queueErasure, requestErasure } from '../../../services/jobs/erasures.ts'
import { watchErasures } from '../../../services/ledger/erasure-meters.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'
import { createErasureRedis } from '../../support/erasure-redis.ts'
import { createManualClock, TENANT } from '../../support/stage-doubles.ts'

const AT_MS = 1_800_000_000_000

/** The series of new metrics, as readings are cached for a while. */
async function setUp () {
  const clock = createManualClock(AT_MS)
  const { redis } = createErasureRedis()
  const erasures = createErasures(redis)
  const series = async () => {
    const metrics = createMetrics()
    watchErasures({ erasures, clock, metrics, log: { warn: vi.fn() } })
    return (await metrics.text()).split('\n').filter(line => line.startsWith('erasure'))
  }
  const erase = (job: string) => requestErasure(
    { redis, clock, producer: { send: async () => {} } }, { tenant: TENANT, job, cache: false })
  return { clock, redis, erasures, series, erase }
}

it('erasures are counted by phase until complete, with the age of the oldest', async () => {
  const { clock, redis, erasures, series, erase } = await setUp()
  await erase('job_1')
  clock.advance(60_000)
  await erase('job_2')
  const first = { tenant: TENANT, job: 'job_1', cache: false }
  // Its score is the time of the next check from now on.
  await erasures.await([first], AT_MS + 600_000)
  clock.advance(30_000)
  expect(await series()).toEqual([
    'erasures_pending{phase="requested"} 1',
    'erasures_pending{phase="compacting"} 1',
    'erasure_oldest_seconds 90',
  ])
  await erasures.complete([first], clock.now())
  expect((await series()).at(-1)).toBe('erasure_oldest_seconds 30')
  await erasures.await([{ ...first, job: 'job_2' }], clock.now())
  await erasures.complete([{ ...first, job: 'job_2' }], clock.now())
  expect(await series()).toEqual([
    'erasures_pending{phase="requested"} 0',
    'erasures_pending{phase="compacting"} 0',
    'erasure_oldest_seconds 0',
  ])
  // Results that have expired have no mark.
  await queueErasure(redis, { ...first, job: 'job_3' }, AT_MS)
  expect((await series()).slice(0, 1)).toEqual(['erasures_pending{phase="requested"} 1'])
})
