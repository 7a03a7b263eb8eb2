import { expect, it } from 'vitest'
import { deadLetter } from '../../../../services/lib/dead-letters.ts'
import { letterOf, placeOf } from '../../../../services/ops/dead/letter.ts'
import { DEAD_AT_MS, liveMessage } from './memory-dead.ts'

const inTopic = { topic: 'verify.dead', partition: 0, offset: 12n, timestampMs: 0 }

it('a letter is known by its headers, where it lies and what it weighs', () => {
  const { headers } = deadLetter(
    'verify', { raw: liveMessage(), reason: 'seal_broken' }, DEAD_AT_MS)
  const raw = { ...liveMessage(), ...inTopic, headers }
  expect(placeOf(raw)).toBe('0:12')
  expect(letterOf('verify', raw)).toEqual({
    stage: 'verify',
    place: '0:12',
    reason: 'seal_broken',
    deadAtMs: DEAD_AT_MS,
    from: { topic: 'rows.missed.small.whatsapp', partition: '3', offset: '55' },
    tenant: 'org_a.live',
    job: 'job_a',
    service: 'whatsapp',
    rows: 3,
    bytes: 19,
  })
})

it('a letter without any header is one all the same', () => {
  const raw = { ...liveMessage(), ...inTopic, headers: {}, value: null }
  expect(letterOf('feed', raw)).toEqual({
    stage: 'feed',
    place: '0:12',
    reason: '',
    deadAtMs: NaN,
    from: { topic: '', partition: '', offset: '' },
    tenant: '',
    job: '',
    service: '',
    rows: 0,
    bytes: 0,
  })
})
