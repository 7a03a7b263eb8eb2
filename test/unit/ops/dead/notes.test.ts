import { expect, it } from 'vitest'
import { noteMessage, noteOf } from '../../../../services/ops/dead/notes.ts'

const done = { as: 'discarded', atMs: Date.UTC(2026, 0, 1), why: 'a test' } as const
const note = { place: '0:12', done }

it('a note is a message without content that is read as it was written', () => {
  const message = noteMessage('verify', note)
  expect(message).toEqual({
    topic: 'verify.dead',
    key: '0:12',
    value: null,
    headers: {
      done_of: '0:12',
      done_as: 'discarded',
      done_at: '2026-01-01T00:00:00.000Z',
      done_why: 'a test',
    },
  })
  expect(noteOf(message.headers)).toEqual(note)
})

it('a letter is no note, even one whose sender wrote the headers of a note', () => {
  const { headers } = noteMessage('verify', note)
  expect(noteOf({ ...headers, dead_stage: 'feed' })).toBeUndefined()
  expect(noteOf({ dead_stage: 'feed' })).toBeUndefined()
  expect(noteOf({ ...headers, done_as: 'forgotten' })).toBeUndefined()
})
