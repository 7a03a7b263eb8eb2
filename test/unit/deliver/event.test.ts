import { describe, expect, it } from 'vitest'
import { API_VERSION } from '../../../services/ingest/guard.ts'
import { eventOf } from '../../../services/deliver/event.ts'
import { eventIdOf } from '../../../services/jobs/events.ts'
import { jobBody } from '../../../services/jobs/resource.ts'
import { DELIVERED_JOB, endedJob } from '../../support/deliveries.ts'

const header = { metadata: { a: '1' }, webhookUrl: 'https://hidden.example/path?token=1' }

describe('an event', () => {
  it('carries the status resource and says by which version and when', () => {
    expect(eventOf(endedJob(), 'job.completed', header)).toEqual({
      id: eventIdOf(DELIVERED_JOB, 'job.completed'),
      type: 'job.completed',
      api_version: API_VERSION,
      livemode: true,
      timestamp: '2026-08-11T10:00:02.500Z',
      data: jobBody(endedJob(), header),
    })
  })

  it('carries the mode of the key that made the job', () => {
    const job = { ...endedJob(), tenant: 'org_1.test' }
    expect(eventOf(job, 'job.completed', header).livemode).toBe(false)
  })

  it('is the same, byte for byte, whenever it is made, and small', () => {
    const text = JSON.stringify(eventOf(endedJob(), 'job.completed', header))
    expect(JSON.stringify(eventOf(endedJob(), 'job.completed', header))).toBe(text)
    expect(text.length).toBeLessThan(1_000)
    expect(text).not.toContain('hidden')
    expect(text).not.toContain('unitPrice')
  })
})
