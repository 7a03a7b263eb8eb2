import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { IngestDeps } from '../../../../services/ingest/deps.ts'
import type { JobWait } from '../../../../services/jobs/job-waiter.ts'
import type { Refusal } from '../../../../services/jobs/job.ts'
import type { SubmitOutcome } from '../../../../services/jobs/submit.ts'
import {
  application, closedJob, good, jobOf, listen, outage, quotedOf, talk,
} from '../doubles.ts'

const sample = { digest: 'ab'.repeat(16), rows: [1, 0] }
const contacts = jobOf().preflight.freshChecks + jobOf().preflight.cacheHits
const counts = { ...jobOf().counts, successRecords: 10, failedRecords: 0, finishedRows: 10 }
const ended = closedJob({ counts, verdicts: { 'valid assigned_range': 9, 'risky catch_all': 1 } })

type Setup = Partial<IngestDeps> & { readonly quoted?: SubmitOutcome }

/** The interface with quotes that have a sample, and what its requests took. */
function setUp ({ quoted = quotedOf(sample), submit, ...more }: Setup = {}) {
  const taken: unknown[] = []
  const waits: JobWait[] = []
  const counted: unknown[] = []
  const { app, post, calls } = application({
    submit: async submission => {
      calls.submissions.push(submission)
      if (submission.quoteOnly === true) return quoted
      return await submit?.(submission) ?? { kind: 'accepted', job: jobOf(), replayed: false }
    },
    takeSample: async (...sample) => {
      taken.push(sample)
      return true
    },
    metrics: { count: (name, labels) => { counted.push([name, labels]) } },
    waitForJob: async wait => {
      waits.push(wait)
      return ended
    },
    ...more,
  })
  return { app, post, taken, waits, calls, counted }
}

/** The estimate of a quote, and what it took. */
async function quote (body: object = { ...good, sample: true }, more: Setup = {}) {
  const { post, ...took } = setUp(more)
  const { statusCode, json } = await post(body, { path: 'quotes' })
  return { statusCode, body: json(), ...took }
}

describe('a quote with a sample', () => {
  it('has the shares of verdicts of a job that nobody can read, with their intervals', async () => {
    const { body, taken, waits, calls, counted } = await quote()
    expect(counted).toEqual([['estimates_total', { outcome: 'completed' }]])
    expect(body.estimate).toEqual({
      status: 'completed',
      reason: null,
      contacts,
      sampledContacts: 2,
      checkedContacts: 10,
      // The intervals are those of prop.test(x, 10, correct = FALSE) of R.
      shares: {
        valid: { share: 0.9, low: 0.5958, high: 0.9821 },
        risky: { share: 0.1, low: 0.0179, high: 0.4042 },
        invalid: { share: 0, low: 0, high: 0.2775 },
        unknown: { share: 0, low: 0, high: 0.2775 },
      },
    })
    const tenant = 'org_01-sample.live'
    expect(taken).toEqual([[tenant, sample.digest, 2]])
    expect(waits.map(({ tenant, timeoutMs }) => [tenant, timeoutMs > 0])).toEqual([[tenant, true]])
    expect(calls.submissions).toMatchObject([{ tenant: 'org_01.live', sample: true }, {
      tenant,
      inputs: ['call me', '+12127365000'],
      idempotencyKey: sample.digest,
      fingerprint: sample.digest,
      forceFresh: false,
      webhookUrl: '',
      metadata: {},
    }])
  })

  it('is a submission that wants no job, and has no deadline', async () => {
    const { calls } = await quote({ ...good, deadline: 600 })
    expect(calls.submissions)
      .toMatchObject([{ quoteOnly: true, idempotencyKey: '', deadlineSeconds: undefined }])
  })

  it('says how far it is as long as it runs', async () => {
    const running = { waitForJob: async () => undefined }
    expect((await quote(undefined, running)).body.estimate).toMatchObject({
      status: 'running', reason: null, checkedContacts: jobOf().counts.finishedRows, shares: null,
    })
  })

  const refused = (code: 'concurrent_jobs_limit' | 'frozen') =>
    async () => ({ kind: 'refused', refusal: { code } satisfies Refusal }) as const
  it.each<[string, string, Setup]>([
    ['too_few_contacts', 'a short list', { quoted: quotedOf() }],
    ['daily_limit', 'no rows left', { takeSample: async () => false }],
    ['temporarily_unavailable', 'no slot', { submit: refused('concurrent_jobs_limit') }],
    ['temporarily_unavailable', 'an outage', { submit: async () => { throw outage } }],
    ['temporarily_unavailable', 'a failed job', {
      waitForJob: async () => closedJob({ ...ended, status: 'failed' }),
    }],
  ])('is still a quote, without an estimate: %s, for %s', async (reason, _, more) => {
    const { statusCode, body, counted } = await quote(undefined, more)
    expect([statusCode, body.preflight]).toEqual([200, jobOf().preflight])
    expect(counted).toEqual([['estimates_total', { outcome: reason }]])
    expect(body.estimate)
      .toMatchObject({ status: 'unavailable', reason, contacts, checkedContacts: 0, shares: null })
  })
  it('does not wait longer for its job to be accepted than for its verdicts', async () => {
    const late = new AbortController()
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(late.signal)
    onTestFinished(() => timeout.mockRestore())
    const submit = () => {
      late.abort()
      return new Promise<never>(() => {})
    }
    const { statusCode, body } = await quote(undefined, { submit })
    expect([statusCode, body.estimate.reason]).toEqual([200, 'temporarily_unavailable'])
    expect(timeout.mock.calls).toEqual([[15_000]])
  })

  it('does not wait for its job when its client leaves', async () => {
    const submitted = Promise.withResolvers<void>()
    const { app } = setUp({
      submit: () => {
        submitted.resolve()
        return new Promise<never>(() => {})
      },
    })
    const body = JSON.stringify({ ...good, sample: true })
    const request = 'POST /api/v1/quotes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer live\r\n' +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
    const { socket, answer } = talk(await listen(app), request, { allowHalfOpen: true })
    await submitted.promise
    socket.end()
    expect(await answer()).toContain('"reason":"temporarily_unavailable"')
  })
})
