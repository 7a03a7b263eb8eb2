import { describe, expect, it } from 'vitest'
import {
  balanceView, overviewView, movementLabel,
} from '../../../services/page/balance.ts'
import { html } from '../../../services/page/html.ts'
import {
  jobName, isEnded, jobState, jobTable, stateText,
} from '../../../services/page/job-components.ts'
import { jobsView, listQueryOf } from '../../../services/page/job-list.ts'
import { deliverySection, jobView } from '../../../services/page/jobs.ts'
import {
  customerPage, emptyState, operatorPage, plainPage, table, tokenField,
} from '../../../services/page/layout.ts'
import { ended, jobLike, visitLike } from '../../support/page/page-doubles.ts'
import { acceptedJob, entryOf } from '../../support/stage-doubles.ts'

const visit = visitLike()
const balance = {
  balanceMicros: 3_000, reservedMicros: 1_000, availableMicros: 2_000, currency: 'USD',
} as const
const ANY = {
  status: '', service: '', created_from: '', created_to: '', label: '', value: '',
}
const text = ({ html: source }: { readonly html: string }) =>
  source.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ')

describe('the frame of every page', () => {
  it('shows organization, section and mode, all escaped', () => {
    const page = customerPage(visit, 'jobs', { title: 'A < B', body: html`<p>x</p>` }).html
    expect(page).toContain('<title>A &lt; B · Verification Jobs</title>')
    expect(page).toContain('Ann &amp; Sons &lt;Ltd&gt;')
    expect(page).toContain('<a href="/live/jobs" aria-current="page">Jobs</a>')
    expect(page).toContain('<a href="/test/jobs">Test</a>')
    expect(page).not.toContain('Test mode:')
    expect(customerPage(visitLike('test'), 'jobs', { title: 't', body: html`` }).html)
      .toContain('Test mode:')
    expect(operatorPage(visit.visitor.session, { title: 't', body: html`` }).html)
      .toContain(tokenField(visit.visitor.session).html)
    expect(plainPage({ title: 't', body: html`` }).html).not.toContain('Sign out')
  })
})

describe('the pages of money', () => {
  it('explain what to do while there are no movements', () => {
    expect(text(overviewView(visit, { balance, jobs: [] }))).toContain('No job yet. Verify a file')
    expect(text(overviewView(visit, { balance, jobs: [jobLike()] }))).toContain('$0.002')
    expect(text(balanceView(visit, { balance, page: { movements: [], before: undefined } })))
      .toContain('No movements yet.')
  })

  it('list every movement', () => {
    const movement = {
      ...entryOf('org_1.live', acceptedJob()),
      seq: 2,
      type: 'settle',
      job: 'job_1',
      amountMicros: 10_000,
      chargeMicros: 4_000,
      availableMicros: 6_000,
      reservedMicros: 0,
      at: 0,
      reason: '',
    }
    const page = text(balanceView(visit, { balance, page: { movements: [movement], before: 2 } }))
    expect(page).toContain('Job settled, rest released job_1 +$0.006 $0.004 $0.006')
    expect(page).toContain('Older movements')
    const types = ['topup', 'adjust', 'reserve', 'void', 'else']
    expect(types.map(type => movementLabel({ type, reason: 'r' })))
      .toEqual(['Top-up: r', 'Correction: r', 'Reserved for a job', 'Reservation released', 'else'])
  })
})

describe('the list of jobs', () => {
  it('subscribes to the progress of at most twenty running jobs', () => {
    const jobs = Array.from({ length: 22 }, (_, at) => jobLike({ id: `job_${at}` }))
    const list = jobTable([jobLike({ id: 'job_end', ...ended }), ...jobs], {
      mode: 'live', zone: 'UTC',
    }).html
    const [, query = ''] = /data-live="\/live\/live\?view=list&amp;([^"]+)"/.exec(list) ?? []
    expect(query.split('&amp;').filter(one => one.startsWith('job='))).toHaveLength(20)
    expect(query).not.toContain('job_end')
    expect(jobTable([jobLike(ended)], { mode: 'live', zone: 'UTC' }).html)
      .not.toContain('data-live')
  })

  it('names jobs by their files, escaped', () => {
    const job = jobLike({ metadata: { file: '<b>.csv' } })
    expect([jobName(job), jobName(jobLike())]).toEqual(['<b>.csv', 'job_1'])
    const page = { data: [job], has_more: true, next_cursor: 'job_0' }
    const filter = {
      ...ANY, status: 'verifying', created_from: '2026-08-01', label: 'team "a"', value: 'x',
    }
    const list = jobsView(visit, { page, filter }).html
    expect(list).toContain('<input type="date" name="created_from" value="2026-08-01">')
    expect(list).toContain('<input type="text" name="label" value="team &quot;a&quot;">')
    expect(list).toContain('created_from=2026-08-01&amp;')
    expect(list).toContain('&lt;b&gt;.csv')
    expect(list).toContain('<option value="verifying" selected>')
    expect(list).toContain('after=job_0')
    expect([isEnded(job), isEnded(ended), stateText('cancelled')])
      .toEqual([false, true, 'Cancelled'])
    expect(jobState(jobLike(ended)).html).not.toContain('<progress')
  })

  it('asks the REST interface for what is filled in', () => {
    expect(listQueryOf(ANY, '')).toEqual({ limit: 20 })
    const filter = {
      ...ANY, service: 'whatsapp', created_to: '2026-08-02', label: 'team', value: 'a',
    }
    expect(listQueryOf(filter, 'job_9')).toEqual({
      limit: 20,
      service: 'whatsapp',
      created_to: '2026-08-02',
      after: 'job_9',
      metadata: { team: 'a' },
    })
    expect(listQueryOf({ ...ANY, label: 'empty' }, '')).toMatchObject({ metadata: { empty: '' } })
    expect(listQueryOf({ ...ANY, value: 'without a label' }, '')).toEqual({ limit: 20 })
  })

  it('explains what to do when it is empty', () => {
    const page = { data: [], has_more: false, next_cursor: null }
    expect(text(jobsView(visit, { page, filter: ANY })))
      .toContain('No job yet.')
    expect(text(jobsView(visit, { page, filter: { ...ANY, label: 'team' } })))
      .toContain('Show all jobs')
    expect(text(emptyState('x', html`<a>y</a>`))).toBe(' x y ')
    expect(table('T', [{ text: 'A', isNumber: true }], []).html).toContain('aria-label="T"')
  })
})

describe('the page of a job', () => {
  const details = { preview: undefined, attempts: [], notice: undefined }

  it('offers to cancel a running job and subscribes to its progress', () => {
    const page = jobView(visit, { ...details, job: jobLike() }).html
    expect(page).toContain('data-live="/live/live?view=job&amp;job=job_1"')
    expect(page).toContain('action="/live/jobs/job_1/cancel"')
    expect(page).toContain('Results appear as soon as the job has ended.')
  })

  it('shows the first rows of an ended job without blank columns', () => {
    const row = {
      row: 1,
      input: '<i>',
      status: 'valid',
      reason: null,
      source: 'live',
      confidence: 90,
      checked_at: 't',
      expires_at: 't',
      carrier: 'C',
    }
    const preview = { data: [row], has_more: false, next_cursor: null } as never
    const page = jobView(visit, { ...details, job: jobLike(ended), preview }).html
    expect(page).toContain('&lt;i&gt;')
    expect(page).toContain('>carrier</th>')
    expect(page).not.toContain('>reason</th>')
    expect(page).toContain('href="/live/jobs/job_1/results.csv"')
    expect(page).toContain('href="/live/jobs/job_1/valid.csv"')
    expect(page).not.toContain('join=original')
    const job = jobLike({ ...ended, hasOriginalColumns: true })
    const joined = jobView(visit, { ...details, job, preview }).html
    for (const file of ['results.csv"', 'results.csv?join=original"', 'valid.csv?join=original"']) {
      expect(joined).toContain(`href="/live/jobs/job_1/${file}`)
    }
  })

  it('lists deliveries and offers to send the event again', () => {
    const attempt = {
      deliveryId: 'evt_1',
      type: 'job.completed',
      jobId: 'job_1',
      endpointId: null,
      attempt: 1,
      attemptedAt: '2026-11-21T12:00:00.000Z',
      outcome: 'failed',
      statusCode: null,
      reason: 'timeout',
      durationMs: 15_000,
    } as const
    const list = deliverySection(visit, {
      ...details, job: jobLike(ended), attempts: [attempt, { ...attempt, attempt: 2 }],
    })
    expect(list.html.match(/evt_1\/resend/g)).toHaveLength(1)
    expect(text(list)).toContain('Failed, retrying – timeout 15,000 ms')
    const removed = { ...attempt, attempt: 2, outcome: 'discarded', reason: 'endpoint_removed' }
    const { html } = deliverySection(visit, {
      ...details, job: jobLike(ended), attempts: [removed as never, attempt],
    })
    expect(html).not.toContain('resend')
  })
})
