import { describe, expect, it } from 'vitest'
import { keysInTopic } from '../../../services/jobs/job-keys.ts'
import { createCodec, localSource } from '../../../services/lib/registry.ts'
import { createMemoryBus } from '../../support/memory-bus.ts'

const codec = createCodec(localSource())

describe('the topic of data keys', () => {
  it('has the newest wrapped key of a job, for its own tenant', async () => {
    const bus = createMemoryBus()
    const restore = keysInTopic({ bus, codec })
    const put = async (job: string, text: string | null) => {
      const value = text === null
        ? null
        : await codec.encode('job.keys-value', { tenant: 't', job, wrapped: Buffer.from(text) })
      await bus.producer('any').send([{ topic: 'job.keys', key: job, value, headers: {} }])
    }
    await put('job_1', 'old')
    await put('job_2', 'other')
    await put('job_1', 'new')
    expect(String(await restore('t', 'job_1'))).toBe('new')
    expect(await restore('stranger', 'job_1')).toBeUndefined()
    expect(await restore('t', 'job_3')).toBeUndefined()
    await put('job_1', null)
    expect(await restore('t', 'job_1')).toBeUndefined()
  })
})
