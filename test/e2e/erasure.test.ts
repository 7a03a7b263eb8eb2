import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { jobKeys } from '../../services/jobs/redis-keys.ts'
import { connectRedis } from '../../services/lib/redis.ts'
import { runAudit } from '../support/audit.ts'
import type { Erasure } from '../../services/workspace/erase.ts'
import { filesWith } from '../support/bytes.ts'
import { compactAtOnce } from '../support/compaction.ts'
import { startReceiver } from '../support/receiver.ts'
import { openWorkspaceCommands } from '../support/workspace.ts'
import { runJob, startWorld, type World } from '../support/world.ts'
import { stackEnv, testStack } from '../support/stack.ts'

const env = stackEnv()
const folder = testStack().dataDir
const redis = connectRedis(env.REDIS_STATE_URL ?? '')
const { workspace, close } = openWorkspaceCommands(env)
const receiver = await startReceiver()

let world: World
let compactAsUsual = async () => {}
beforeAll(async () => {
  compactAsUsual = await compactAtOnce((env.KAFKA_BROKERS ?? '').split(','))
  world = await startWorld()
})
afterAll(async () => {
  await compactAsUsual()
  await world.stop()
  redis.disconnect()
  close()
})

const ask = async (mode: 'live' | 'test', path: string, method = 'GET') => {
  const headers = { authorization: `Bearer ${world.keys[mode]}` }
  const answer = await fetch(`${world.baseUrl}${path}`, { method, headers })
  const body = method === 'HEAD' ? undefined : await answer.json() as { error?: { code: string } }
  return [answer.status, body?.error?.code]
}

const erase = (mode: 'live' | 'test', job: string) => workspace<Erasure>(env,
  'job', 'erase', '--org', world.orgId, '--job', job, '--mode', mode, '--wait-minutes', '6')

/** What is erased must have been found before. */
const places = (wrapped: readonly Buffer[]) => ({
  redis: filesWith(`${folder}/redis-state`, wrapped).length,
  kafka: filesWith(`${folder}/kafka/log`, wrapped).length,
})

const GONE = { done: true, redis: 'gone', aof: 'rewritten', copiesInTopic: 0 }

describe('erasing jobs on demand', () => {
  it('makes all of them unreadable and leaves no copy of their keys, and their money', async () => {
    const metadata = { campaign: 'spring' }
    const address = `http://127.0.0.1:${receiver.port}/hook`
    const done = await runJob(world.live, {
      service: 'phone-validation',
      inputs: ['+12127360101', 'nonsense'],
      metadata,
      webhook_url: address,
    })
    // Its check is unavailable for a quarter of an hour.
    const { id: running } = await world.test.createJob({
      service: 'phone-validation', inputs: ['+12127360005', '+12127360102'], metadata,
    })
    const { id } = done.created
    await receiver.until(1)
    const wrapped = await Promise.all([
      redis.getBuffer(jobKeys(`${world.orgId}.live`, id).dataKey),
      redis.getBuffer(jobKeys(`${world.orgId}.test`, running).dataKey),
    ])
    const [first, second] = wrapped.map(bytes => bytes ?? Buffer.alloc(0)) as [Buffer, Buffer]
    for (const bytes of [first, second]) {
      expect(places([bytes])).toEqual({ redis: 1, kafka: expect.any(Number) })
      expect(places([bytes]).kafka).toBeGreaterThan(0)
    }
    const before = await world.live.balance()

    const erased = await Promise.all([erase('live', id), erase('test', running)])
    expect(erased).toEqual([
      expect.objectContaining({ ...GONE, job: id, status: 'completed', copiesInDeadLetters: 0 }),
      expect.objectContaining({ ...GONE, job: running, status: 'cancelled' }),
    ])
    expect(places([first, second]).redis).toBe(0)
    await expect.poll(() => places([first, second]).kafka).toBe(0)

    for (const [mode, job] of [['live', id], ['test', running]] as const) {
      const gone = [410, 'results_expired']
      expect(await ask(mode, `/jobs/${job}/results`)).toEqual(gone)
      expect(await ask(mode, `/jobs/${job}/results?format=json`)).toEqual(gone)
      expect(await ask(mode, `/jobs/${job}/results`, 'HEAD')).toEqual([410, undefined])
    }
    expect(await world.live.job(id)).toEqual({ ...done.job, metadata: {} })
    const cancelled = await world.test.job(running)
    expect(cancelled).toMatchObject({ status: 'cancelled', metadata: {}, totalRows: 2 })
    expect(await world.live.balance()).toEqual(before)
    const only = [`${world.orgId}.live`, `${world.orgId}.test`]
    expect((await runAudit(env, { only })).breaches).toEqual([])

    await expect(erase('test', id)).rejects.toThrow(`has no job ${id} in mode test`)
  })
})
