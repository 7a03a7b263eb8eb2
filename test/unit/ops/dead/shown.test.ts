import { expect, it } from 'vitest'
import {
  envelopeShown, headersShown, openedShown, rowRanges, safeText, summaryOf, timeOf,
} from '../../../../services/ops/dead/shown.ts'
import { entriesOf } from '../../../../services/ops/dead/look.ts'
import { DEAD_AT_MS, liveMessage, memoryDead, NOW_MS } from './memory-dead.ts'

it('a text of somebody else moves no cursor and fills no screen', () => {
  expect(safeText('a\u001b[31mb\r\nc\u202ed\u2028')).toBe('a�[31mb��c�d�')
  expect(safeText('x'.repeat(201))).toBe(`${'x'.repeat(200)}…`)
})

it('a summary names all but the content', async () => {
  const { parts, die } = memoryDead()
  die('verify', 'seal_broken')
  const [entry] = await entriesOf(parts, 'verify')
  if (entry === undefined) throw new Error('there is a letter')
  const summary = summaryOf(entry, NOW_MS)
  expect(summary).toEqual({
    stage: 'verify',
    letter: '0:0',
    reason: 'seal_broken',
    deadAt: '2026-01-02T03:04:05.000Z',
    ageSeconds: 90,
    tenant: 'org_a.live',
    job: 'job_a',
    service: 'whatsapp',
    rows: 3,
    bytes: 19,
    from: 'rows.missed.small.whatsapp 3:55',
    done: null,
  })
  const done = [
    { as: 'replayed', atMs: DEAD_AT_MS, why: '' },
    { as: 'discarded', atMs: NOW_MS, why: 'w' },
  ] as const
  expect(summaryOf({ ...entry, deadAtMs: NaN, done }, NOW_MS)).toMatchObject({
    deadAt: null,
    ageSeconds: null,
    done: { as: 'discarded', at: '2026-01-02T03:05:35.000Z', why: 'w', times: 2 },
  })
})

it('rows are named as the job counts them', () => {
  expect(rowRanges(liveMessage().headers)).toBe('11-12, 14')
  expect(rowRanges({ tenant: 't' })).toBe('not named')
})

it('of headers that the pipeline does not write only their sizes are told', () => {
  expect(headersShown({ job: 'job_a', rows: 'AQ==', note: '+12127365000', dead_reason: 'r\n' }))
    .toEqual({ job: 'job_a', rows: '4 bytes', note: '12 bytes', dead_reason: 'r�' })
})

it('of an envelope neither bytes nor lists nor what a partner calls a contact are told', () => {
  const shown = envelopeShown({
    chunk: 3,
    forceFresh: true,
    reference: '+12127365000',
    sealed: Buffer.from('+12127365000'),
    copies: [{ row: 1, copies: 2 }],
    feed: { partner: 'acme\n', from: 7n, header: Buffer.alloc(2) },
    at: new Date(0),
    none: null,
  })
  expect(shown).toEqual({
    chunk: 3,
    forceFresh: true,
    reference: '12 bytes',
    sealed: '12 bytes',
    copies: '1 items',
    feed: { partner: 'acme�', from: '7', header: '2 bytes' },
    at: '1970-01-01T00:00:00.000Z',
    none: null,
  })
})

it('opened rows are told whole, but for bytes', () => {
  expect(openedShown({ inputs: ['+1'], rows: [1], tokens: Buffer.alloc(32) }))
    .toEqual({ inputs: ['+1'], rows: [1], tokens: '32 bytes' })
})

it('a time nobody knows is none', () => {
  expect([timeOf(0), timeOf(NaN)]).toEqual(['1970-01-01T00:00:00.000Z', null])
})
