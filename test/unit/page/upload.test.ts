import { describe, expect, it } from 'vitest'
import type { QuoteBody } from '../../../schemas/api/quote.ts'
import { ApiError } from '../../../services/client/client.ts'
import { openPage, recordingClient, textOf } from '../../support/page/page-doubles.ts'
import { rowOf, workbookOf } from '../../support/workbooks.ts'

const FILE = 'name;phone\nAnn;1\n'

/** A signed-in browser whose script sends files, and the calls of the REST client. */
async function browse (answers: Readonly<Record<string, unknown>>) {
  const { calls, client } = recordingClient(answers)
  const { ask, signIn } = openPage({ client })
  const { cookie, session, get } = await signIn()
  const send = (path: string, payload: string | Buffer = FILE) => ask(`/live/upload/${path}`, {
    method: 'POST',
    payload,
    headers: {
      cookie, origin: 'http://h', 'x-form-token': session.token, 'content-type': 'text/csv',
    },
  })
  const form = async (query: string) => (await get(`/live/upload${query}`)).body
  return { calls, send, form }
}

describe('an uploaded file', () => {
  const path = 'job?id=5f0c3f43-7a51-4f1a-9c39-6a1f6d3f5a10'
  const chosen = { service: 's', column: '2', delimiter: ';', header: true }

  it.each([
    ['&country=+us+&fresh=false&deadline=&file=a.csv&x=1',
      { ...chosen, forceFresh: false, countryCode: 'us', metadata: { file: 'a.csv' } }],
    ['&country=&file=&webhook=https%3A%2F%2Fx&deadline=3600&fresh=true',
      { ...chosen, forceFresh: true, deadline: 3_600, webhook_url: 'https://x' }],
  ])('becomes a job, as it is, with the chosen values only: %s', async (more, options) => {
    const { send, calls } = await browse({ createJobFromFile: { id: 'job_1' } })
    const answer = await send(`${path}&service=s&column=2&delimiter=%3B&header=true${more}`)
    expect(answer.json()).toEqual({ path: '/live/jobs/job_1' })
    expect(calls).toEqual([[
      'createJobFromFile', Buffer.from(FILE), options, '5f0c3f43-7a51-4f1a-9c39-6a1f6d3f5a10',
    ]])
  })

  it('needs a service and the id of its job, and shows errors of the REST interface', async () => {
    const error = { code: 'insufficient_balance', message: 'Top up the balance.' }
    const { send } = await browse({
      createJobFromFile: () => {
        throw new ApiError(new Response(null, { status: 402 }), JSON.stringify({ error }))
      },
    })
    for (const query of [
      path, `${path}&service=s&service=t`, 'job?service=s', 'job?service=s&id=x',
    ]) expect((await send(query)).statusCode).toBe(400)
    const { statusCode, json } = await send(`${path}&service=s`)
    expect([statusCode, json().error.message]).toEqual([402, 'Top up the balance.'])
  })
})

describe('the form of a file', () => {
  const services = ['phone-validation', 'carrier-lookup'].map(slug => ({
    slug, configured: slug !== 'carrier-lookup', inputKind: 'phone', priceMicros: 1, options: [],
  }))
  const job = { id: 'job_1', hasOriginalColumns: false, metadata: {} }

  it('starts with a service and the list of a job', async () => {
    const { form } = await browse({
      services, job: { ...job, hasOriginalColumns: true, metadata: { file: 'a "b".xlsx' } },
    })
    const body = await form('?service=phone-validation&list=job_1')
    expect(body).toContain(' selected>phone-validation')
    expect(body).toContain('data-list="/live/jobs/job_1/results.csv?list=yes&amp;join=original" ' +
      'data-name="a &quot;b&quot;.csv"')
    expect(body).not.toContain('is not set up here')
  })

  it('says that a service is not set up, and ignores what is no id', async () => {
    const { form } = await browse({ services, job })
    expect(await form('?service=carrier-lookup'))
      .toContain('The service carrier-lookup is not set up here.')
    for (const query of ['', '?list=job_1/x', '?list=job_1&list=job_2', '?list=keys']) {
      expect(await form(query)).not.toContain('data-list')
    }
    expect(await form('?list=job_1')).toContain('data-name="job_1.csv"')
  })
})

describe('an uploaded workbook', () => {
  it('is the CSV of the chosen sheet for the browser, with the names of all', async () => {
    const { send } = await browse({})
    const sheets = ['List', 'Notes']
    const workbook = workbookOf({
      sheets, rows: `${rowOf(1, 'name', 'phone')}${rowOf(3, 'A, b', '0049')}`,
    })
    const csv = '\ufeffname,phone\r\n\r\n"A, b",0049\r\n'
    for (const query of ['', '?sheet=', '?sheet=List']) {
      expect((await send(`sheet${query}`, workbook)).json()).toEqual({ csv, sheet: 'List', sheets })
    }
    expect((await send('sheet?sheet=Notes', workbook)).json())
      .toEqual({ csv: '\ufeff', sheet: 'Notes', sheets })
  })

  it('of megabytes is sent in pieces, which cut no character', async () => {
    const { send } = await browse({})
    const cells = Array.from({ length: 20_000 }, (_, at) =>
      `${at}€😀ü "\n`.padEnd(at % 13 + 9, 'x'))
    const rows = cells.map((cell, at) => rowOf(at + 1, cell)).join('')
    const answer = await send('sheet', workbookOf({ sheets: ['List'], rows }))
    const lines = cells.map(cell => `"${cell.replaceAll('"', '""')}"\r\n`)
    const csv = `\ufeff${lines.join('')}`
    expect(answer.json()).toEqual({ csv, sheet: 'List', sheets: ['List'] })
    // The text is nowhere whole: its length is not known in advance.
    expect(answer.headers).not.toHaveProperty('content-length')
  })
})

describe('the quote of a file', () => {
  const quote: QuoteBody = {
    preflight: {
      totalRows: 5,
      invalidRows: 1,
      duplicateRows: 1,
      cacheHits: 1,
      freshChecks: 2,
      maxQuoteMicros: 6_000,
      quoteId: 'quot_1',
    },
    service: 's',
    checks: ['syntax'],
    limitations: ['range_only', 'later'],
    redeemable: false,
    expiresAt: '',
  }

  it.each([
    [6_000, ['At most $0.006', 'Checked live 2 $0.0020 each', 'Start the job',
      'the range of the number, not about the number itself; later.']],
    [5_999, ['$0.000001 more is needed.']],
  ])('shows its maximum price and, with %d micros, what to do', async (availableMicros, texts) => {
    const { send } = await browse({
      quoteFile: quote,
      balance: { availableMicros },
      services: [{ slug: 's', priceMicros: 2_000 }],
    })
    const text = textOf((await send('quote?service=s')).json().html)
    for (const part of texts) expect(text).toContain(part)
    expect(text.includes('Start the job')).toBe(availableMicros === 6_000)
  })

  const completed = {
    status: 'completed',
    reason: null,
    contacts: 4_800,
    sampledContacts: 100,
    checkedContacts: 100,
    shares: {
      valid: { share: 0.82, low: 0.7333, high: 0.8831 },
      risky: { share: 0.05, low: 0.0215, high: 0.1118 },
      invalid: { share: 0.12, low: 0.07, high: 0.1981 },
      unknown: { share: 0.01, low: 0.0018, high: 0.0545 },
    },
  }
  it.each<[string, object, readonly string[]]>([
    ['1', completed, ['Valid 82 % 73.3 % to 88.3 %', 'Unknown 1 % 0.2 % to 5.5 %',
      'By a free sample of 100 of 4,800 contacts to verify. Duplicates']],
    ['2', completed, ['4,800 contacts to verify in the first part of the file.']],
    ['1', { ...completed, status: 'running', checkedContacts: 7, shares: null },
      ['7 of 100 contacts of the sample have an answer.', 'Estimate the verdicts, free']],
    ['1', { ...completed, status: 'unavailable', reason: 'daily_limit', shares: null },
      ['The free samples of these 24 hours are used up.']],
  ])('of %s part can show what to expect of the file: %j', async (parts, estimate, texts) => {
    const { send, calls } = await browse({ quoteFile: { ...quote, estimate } })
    const text = textOf((await send(`estimate?service=s&parts=${parts}`)).json().html)
    for (const part of texts) expect(text).toContain(part)
    expect(calls).toMatchObject([['quoteFile', {}, { service: 's', sample: true }]])
  })

  it('of a part adds up with those of the parts before, as far as they are counts', async () => {
    const { send } = await browse({
      quoteFile: quote,
      balance: { availableMicros: 20_000 },
      services: [{ slug: 's', priceMicros: 2_000 }],
    })
    const earlier = { totalRows: 100, freshChecks: -1, cacheHits: '<b>', maxQuoteMicros: 14_000 }
    const query = new URLSearchParams({
      service: 's', parts: '2', earlier: JSON.stringify(earlier),
    })
    const { html, preflight } = (await send(`quote?${query}`)).json()
    expect(preflight).toMatchObject({
      totalRows: 105, freshChecks: 2, cacheHits: 1, maxQuoteMicros: 20_000, quoteId: 'quot_1',
    })
    const text = textOf(html)
    expect(text).toContain('At most $0.0200')
    expect(text).toContain('The file becomes 2 jobs.')
    expect((await send('quote?service=s&parts=x&earlier=%7B')).json().preflight.totalRows).toBe(5)
  })
})
