import { describe, expect, it } from 'vitest'
import { feedOptions, progressText } from '../../../services/client/feed-command.ts'
import type { ContactToSend, FeedConnection } from '../../../services/client/feed-connection.ts'
import type { FileContact, WrittenResult } from '../../../services/client/feed-files.ts'
import { createTally, sendContacts } from '../../../services/client/feed-send.ts'

async function * streamOf (contacts: readonly FileContact[]): AsyncIterable<FileContact> {
  yield * contacts
}
const contact = (input: string, reference?: string): FileContact =>
  ({ input, reference, countryCode: undefined })

/** A feed that answers every contact `times` times when it is flushed. */
function feedOf (times = 1) {
  const sent: ContactToSend[] = []
  let emit: Parameters<FeedConnection['listen']>[0] = () => {}
  const feed = {
    send: async (contacts: readonly ContactToSend[]) => { sent.push(...contacts) },
    end: async () => {
      for (const [offset, { reference, input }] of sent.entries()) {
        const result = { resultId: `r${offset}`, reference, cells: { status: 'valid', input } }
        for (let time = 0; time < times; time++) emit(result)
      }
    },
    listen: async (onResult: typeof emit) => { emit = onResult },
    close: async () => {},
  }
  return { feed, sent }
}

async function send (contacts: readonly FileContact[], times = 1, silenceMs = 1_000) {
  const { feed, sent } = feedOf(times)
  const written: WrittenResult[] = []
  const summary = await sendContacts({
    feed,
    source: { contacts: streamOf(contacts), read: () => 1 },
    output: { write: result => { written.push(result) }, finish: async () => {} },
  }, { service: 'whatsapp', countryCode: 'US', forceFresh: false, silenceMs })
  return { summary, written, sent }
}

describe('sending contacts', () => {
  it('writes one result per contact and ignores duplicates', async () => {
    const { summary, written } = await send([contact('1', 'A'), contact('2', 'B')], 3)
    expect(written.map(({ reference, cells }) => [reference, cells['input']]))
      .toEqual([['A', '1'], ['B', '2']])
    expect(summary).toEqual({ sent: 2, results: 2, repeated: 4, byStatus: { valid: 2 } })
  })

  it('numbers rows without a reference, with a prefix of the run', async () => {
    const first = await send([contact('1'), contact('2')])
    const second = await send([contact('1')])
    expect(first.written.map(({ reference }) => reference)).toEqual(['1', '2'])
    expect(first.sent[0]?.reference).not.toBe(second.sent[0]?.reference)
  })

  it('waits for as many results as contacts with the same reference', async () => {
    const { summary, written } = await send([contact('1', 'A'), contact('2', 'A')], 2)
    expect(written.map(({ resultId }) => resultId)).toEqual(['r0', 'r1'])
    expect(summary.repeated).toBe(2)
  })

  it('fails when no result arrives and explains why', async () => {
    await expect(send([contact('1', 'A')], 0, 20))
      .rejects.toThrow(/1 results are missing.+ will follow, unless the partner was revoked: /)
  })

  it('rejects a row with an empty reference', async () => {
    await expect(send([contact('1', '')])).rejects
      .toThrow('Row 1 of the file has an empty reference')
  })
})

it('a tally ignores results of other senders', () => {
  const tally = createTally({ maxUnanswered: 10, silenceMs: 1_000 })
  tally.expect([{ reference: 'A' }])
  expect(tally.answer({ reference: 'B', resultId: 'r' })).toBe(false)
  expect(tally.counts()).toEqual({ sent: 1, results: 0 })
})

describe('the progress of a feed', () => {
  it('shows counts, rates and remaining time', () => {
    expect(progressText({ sent: 5_000, results: 2_000, fileRead: 0.5 }, 2))
      .toBe('sent 5,000 (2,500/s), results 2,000 (1,000/s), about 8 s left')
    expect(progressText({ sent: 5, results: 0, fileRead: 1 }, 1))
      .toBe('sent 5 (5/s), results 0 (0/s)')
  })
})

describe('the options of a feed', () => {
  const key = `vjf_${Buffer.alloc(32, 5).toString('base64url')}`
  const env = { KAFKA_BROKERS: 'a:1,b:2', SCHEMA_REGISTRY_URL: 'http://r', FEED_KEY: key }

  it('come from the command line, then from the environment', () => {
    expect(feedOptions({ partner: 'acme', data: 'nowhere' }, env)).toEqual({
      brokers: ['a:1', 'b:2'],
      registryUrl: 'http://r',
      partner: 'acme',
      keys: [Buffer.alloc(32, 5)],
    })
    const other = feedOptions({ data: 'nowhere' }, { ...env, FEED_PARTNER: 'other' })
    expect(other.partner).toBe('other')
  })

  it('contain several keys during a rotation', () => {
    const other = `vjf_${Buffer.alloc(32, 6).toString('base64url')}`
    const both = { ...env, FEED_KEY: `${other}, ${key}` }
    expect(feedOptions({ partner: 'acme', data: 'nowhere' }, both).keys)
      .toEqual([Buffer.alloc(32, 6), Buffer.alloc(32, 5)])
    for (const FEED_KEY of [`${key},`, `${key};${other}`]) {
      expect(() => feedOptions({ partner: 'acme', data: 'nowhere' }, { ...env, FEED_KEY }))
        .toThrow('Use one key, or several as "new,old"')
    }
  })

  it('contain the security settings of Kafka', () => {
    expect(feedOptions({ partner: 'acme', data: 'nowhere' }, { ...env, KAFKA_TLS: 'true' }).ssl)
      .toBe(true)
  })

  it('are rejected when they are missing or invalid', () => {
    expect(() => feedOptions({ data: 'nowhere' }, {})).toThrow('npm run up')
    expect(() => feedOptions({ data: 'nowhere' }, env)).toThrow('--partner <name>')
    expect(() => feedOptions({ partner: 'a', key: 'x', data: 'nowhere' }, env)).toThrow('vjf_')
  })
})
