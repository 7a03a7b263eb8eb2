import { describe, expect, it } from 'vitest'
import type { FeedJobRequest } from '../../../services/feed/cursor.ts'
import { submissionOf, submitContacts } from '../../../services/feed/submitter.ts'
import type { Refusal } from '../../../services/jobs/job.ts'
import type { Submitted } from '../../../services/jobs/submit.ts'

const request: FeedJobRequest = {
  cursor: 'whatsapp|DE|',
  terms: { service: 'whatsapp', country: 'DE', forceFresh: false },
  from: 3,
  to: 9,
  inputs: ['a', 'b'],
  offsets: [5, 9],
  references: ['ra', 'rb'],
}
const partner = {
  name: 'acme', tenant: 'org_1.live', mode: 'live', pricesMicros: { whatsapp: 3_500 },
} as const
const source = { partner, partition: 2 }

describe('the submission of a feed job', () => {
  it('has tenant and price of the registration, and the origin of its contacts', () => {
    expect(submissionOf(source, request)).toEqual({
      tenant: 'org_1.live',
      service: 'whatsapp',
      inputs: ['a', 'b'],
      country: 'DE',
      forceFresh: false,
      metadata: {},
      webhookUrl: '',
      idempotencyKey: '',
      fingerprint: '',
      feed: {
        source: {
          partner: 'acme',
          partition: 2,
          cursor: 'whatsapp|DE|',
          from: 3,
          to: 9,
          unitPriceMicros: 3_500,
        },
        offsets: [5, 9],
      },
      references: ['ra', 'rb'],
    })
  })

  it('has no own price for a partner without one, and in test mode', () => {
    const plain = { ...partner, pricesMicros: {} }
    const test = { ...partner, mode: 'test' } as const
    for (const other of [plain, test]) {
      expect(submissionOf({ ...source, partner: other }, request).feed?.source.unitPriceMicros)
        .toBeNull()
    }
  })
})

describe('the outcome of a feed job request', () => {
  const outcomeOf = async (submit: () => Promise<Submitted>) => {
    const counted: unknown[] = []
    const lost: unknown[] = []
    const outcome = await submitContacts({
      submitter: { submit },
      metrics: { count: (name, labels) => { counted.push([name, labels]) } },
      onLost: (...given) => { lost.push(given) },
    }, source, request)
    expect(counted).toEqual([['feed_jobs_total', { outcome: outcome.kind }]])
    return { outcome, lost }
  }
  const refused = (refusal: Refusal) => async (): Promise<Submitted> =>
    ({ kind: 'refused', refusal })

  it.each([
    [{ code: 'cursor_moved' }, 'moved'], [{ code: 'expired' }, 'late'],
    [{ code: 'internal' }, 'failed'],
  ] as const)('is for the refusal %j: %s', async (refusal, kind) => {
    expect((await outcomeOf(refused(refusal))).outcome).toEqual({ kind })
  })

  it('has the refusal of a partner without balance', async () => {
    const refusal = {
      code: 'insufficient_balance', requiredMicros: 7_000, availableMicros: 0,
    } as const
    const { outcome } = await outcomeOf(refused(refusal))
    expect(outcome).toEqual({ kind: 'short', refusal })
  })

  it('is lost when the submitter fails', async () => {
    const error = new Error('no answer')
    const { outcome, lost } = await outcomeOf(async () => { throw error })
    const { partner: { name }, partition } = source
    const cursor = { partner: name, partition, cursor: request.cursor }
    expect([outcome, lost]).toEqual([{ kind: 'lost' }, [[error, cursor]]])
  })
})
