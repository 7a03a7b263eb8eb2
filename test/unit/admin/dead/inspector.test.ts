import { expect, it } from 'vitest'
import type { Job } from '../../../../services/jobs/job.ts'
import { ConfigError } from '../../../../services/runtime/platform/config.ts'
import { describeEffect, withDeadLetters } from '../../../../services/admin/dead/inspector.ts'
import { CONTACT_REPLAY_EFFECT } from '../../../../services/admin/dead/letters.ts'

it('the dead-letter commands need KAFKA_BROKERS', async () => {
  await expect(withDeadLetters({}, async () => 1)).rejects.toThrow('KAFKA_BROKERS is missing')
})

it('the dead-letter inspector needs the key ring only to open content', async () => {
  const env = {
    SCHEMA_REGISTRY_URL: 'http://localhost:1',
    REDIS_STATE_URL: 'redis://localhost:1',
    KAFKA_BROKERS: 'localhost:1',
    MESSAGE_KEYS: JSON.stringify({ 1: Buffer.alloc(32).toString('base64') }),
    MESSAGE_KEY_ACTIVE: '1',
  }
  const opened = withDeadLetters(env, ({ inspect }) => inspect(true, async () => 1))
  await expect(opened).rejects.toThrow(ConfigError)
  await expect(opened).rejects.toThrow('RESULTS_ROOT_KEYS is missing')
  expect(await withDeadLetters(env, ({ inspect }) => inspect(false, inspector =>
    inspector.content(undefined as never)))).toBeUndefined()
})

const jobWith = (job: Partial<Job>) => ({
  kind: 'accepted' as const,
  job: { status: 'verifying', ended: false, closed: false, ...job } as Job,
})

it('the effect of a dead-letter replay depends on the job', () => {
  const found = [
    describeEffect({ kind: 'refused', refusal: { code: 'internal' } }),
    describeEffect({ kind: 'open' }),
    describeEffect(jobWith({ status: 'completed', ended: true })),
    describeEffect(jobWith({ status: 'failed', ended: true, closed: true })),
    describeEffect(jobWith({})),
    CONTACT_REPLAY_EFFECT,
  ]
  const effects = found.map(({ jobStatus, replayEffect }) =>
    [jobStatus, replayEffect.split(':')[0]])
  expect(effects).toEqual([
    ['refused', 'changes nothing'],
    ['unknown', 'charges nothing'],
    ['completed', 'charges nothing'],
    ['failed', 'charges nothing'],
    ['verifying', 'can complete open rows; all other rows keep their result and price'],
    ['no job', 'adds the contact to the feed, unless an earlier replay of it was taken'],
  ])
})
