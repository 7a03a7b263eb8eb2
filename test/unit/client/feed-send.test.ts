import { describe, expect, it } from 'vitest'
import { feedOptions } from '../../../services/client/feed-command.ts'
import type { FileContact } from '../../../services/client/feed-file.ts'
import type { WrittenResult } from '../../../services/client/feed-output.ts'
import { progressText } from '../../../services/client/feed-progress.ts'
import { sendContacts } from '../../../services/client/feed-send.ts'
import { createTally } from '../../../services/client/feed-tally.ts'
import type { ContactResult, ContactToSend } from '../../../services/client/feed-topics.ts'

async function * streamOf (contacts: readonly FileContact[]): AsyncIterable<FileContact> {
  yield * contacts
}
const contact = (input: string, reference?: string): FileContact =>
  ({ input, reference, countryCode: undefined })

/** A feed that answers every contact `times` times once the end is sent. */
function feedOf (times = 1) {
  const sent: ContactToSend[] = []
  let tell = (_result: ContactResult) => {}
  const feed = {
    send: async (contacts: readonly ContactToSend[]) => { sent.push(...contacts) },
    end: async () => {
      for (const [offset, { reference, input }] of sent.entries()) {
        const result = { resultId: `r${offset}`, reference, cells: { status: 'valid', input } }
        for (let time = 0; time < times; time++) tell(result)
      }
    },
    listen: async (onResult: typeof tell) => { tell = onResult },
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

describe('sending', () => {
  it('writes one result a contact, whatever comes again', async () => {
    const { summary, written } = await send([contact('1', 'A'), contact('2', 'B')], 3)
    expect(written.map(({ reference, cells }) => [reference, cells['input']]))
      .toEqual([['A', '1'], ['B', '2']])
    expect(summary).toEqual({ sent: 2, results: 2, repeated: 4, byStatus: { valid: 2 } })
  })

  it('numbers rows without a reference, under a name of this run', async () => {
    const first = await send([contact('1'), contact('2')])
    const second = await send([contact('1')])
    expect(first.written.map(({ reference }) => reference)).toEqual(['1', '2'])
    expect(first.sent[0]?.reference).not.toBe(second.sent[0]?.reference)
  })

  it('waits for as many results as a reference was sent', async () => {
    const { summary, written } = await send([contact('1', 'A'), contact('2', 'A')], 2)
    expect(written.map(({ resultId }) => resultId)).toEqual(['r0', 'r1'])
    expect(summary.repeated).toBe(2)
  })

  it('gives up when no result comes, and says what to look at', async () => {
    await expect(send([contact('1', 'A')], 0, 20)).rejects.toThrow('1 are missing')
  })

  it('refuses a row whose reference is blank', async () => {
    await expect(send([contact('1', '')])).rejects.toThrow('Row 1 of the file has no reference')
  })
})

it('a tally leaves results of other senders alone', () => {
  const tally = createTally({ mostUnanswered: 10, silenceMs: 1_000 })
  tally.expect([{ reference: 'A' }])
  expect(tally.answer({ reference: 'B', resultId: 'r' })).toBe(false)
  expect(tally.counts()).toEqual({ sent: 1, results: 0 })
})

describe('progress', () => {
  it('tells counts, rates and what is left', () => {
    expect(progressText({ sent: 5_000, results: 2_000, fileRead: 0.5 }, 2))
      .toBe('sent 5,000 (2,500/s), results 2,000 (1,000/s), about 8 s left')
    expect(progressText({ sent: 5, results: 0, fileRead: 1 }, 1))
      .toBe('sent 5 (5/s), results 0 (0/s)')
  })
})

describe('the options of a feed', () => {
  const key = `vjf_${Buffer.alloc(32, 5).toString('base64url')}`
  const env = { KAFKA_BROKERS: 'a:1,b:2', SCHEMA_REGISTRY_URL: 'http://r', FEED_KEY: key }

  it('come from the command, then from the environment', () => {
    expect(feedOptions({ partner: 'acme', data: 'nowhere' }, env)).toEqual({
      brokers: ['a:1', 'b:2'],
      registryUrl: 'http://r',
      partner: 'acme',
      keys: [Buffer.alloc(32, 5)],
    })
    const other = feedOptions({ data: 'nowhere' }, { ...env, FEED_PARTNER: 'other' })
    expect(other.partner).toBe('other')
  })

  it('have several keys while one is replaced', () => {
    const other = `vjf_${Buffer.alloc(32, 6).toString('base64url')}`
    const both = { ...env, FEED_KEY: `${other}, ${key}` }
    expect(feedOptions({ partner: 'acme', data: 'nowhere' }, both).keys)
      .toEqual([Buffer.alloc(32, 6), Buffer.alloc(32, 5)])
    for (const FEED_KEY of [`${key},`, `${key};${other}`]) {
      expect(() => feedOptions({ partner: 'acme', data: 'nowhere' }, { ...env, FEED_KEY }))
        .toThrow('FEED_KEY is one key, or several as "new,old"')
    }
  })

  it('tell how the brokers are reached', () => {
    expect(feedOptions({ partner: 'acme', data: 'nowhere' }, { ...env, KAFKA_TLS: 'true' }).ssl)
      .toBe(true)
  })

  it('are told when they are missing or wrong', () => {
    expect(() => feedOptions({ data: 'nowhere' }, {})).toThrow('npm run up')
    expect(() => feedOptions({ data: 'nowhere' }, env)).toThrow('--partner <name>')
    expect(() => feedOptions({ partner: 'a', key: 'x', data: 'nowhere' }, env)).toThrow('vjf_')
  })
})
