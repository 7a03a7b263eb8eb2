import { expect, it } from 'vitest'
import { readNote, readReserveTerms, writeTexts } from '../../../services/money/entry-reason.ts'

it.each([
  { reason: 'invoice 1' }, { reason: 'invoice 1', note: '' }, { reason: '{"reason":"a"}' },
  { reason: '{' }, { reason: 'invoice 1', note: 'a "gift"' }, { reason: '', note: '{' },
])('the customer reads the note of %j, and no reason', texts => {
  for (const type of ['topup', 'adjust']) {
    expect(readNote({ type, reason: writeTexts(texts) })).toBe(texts.note ?? '')
  }
})

it('a reason without a note is in the journal as it was written', () => {
  expect(writeTexts({ reason: 'invoice 1' })).toBe('invoice 1')
})

it('the terms of a job are no note', () => {
  expect(readNote({ type: 'reserve', reason: writeTexts({ reason: '', note: 'a' }) })).toBe('')
})

it.each([
  ['reserve', '{"lane":"small"}', { lane: 'small' }],
  ['reserve', '', undefined],
  ['reserve', 'reconstructed from entry 8: the entry itself is lost', undefined],
  ['topup', writeTexts({ reason: 'R', note: 'N' }), undefined],
])('a %s entry with the reason %j has the terms %o', (type, reason, terms) => {
  expect(readReserveTerms({ type, reason })).toEqual(terms)
})
