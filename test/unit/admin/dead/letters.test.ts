import { expect, it } from 'vitest'
import { deadLetter, decisionMessage } from '../../../../services/runtime/engine/dead-letters.ts'
import {
  isWaiting, parseLetter, matches, parseDecision, formatPosition, readLetters,
} from '../../../../services/admin/dead/letters.ts'
import { DEAD_AT_MS, liveMessage, memoryDead } from './memory-dead.ts'

const inTopic = { topic: 'verify.dead', partition: 0, offset: 12n, timestampMs: 0 }

it('a dead letter is read from the headers, position and size of its message', () => {
  const { headers } = deadLetter(
    'verify', { raw: liveMessage(), reason: 'seal_broken' }, DEAD_AT_MS)
  const raw = { ...liveMessage(), ...inTopic, headers }
  expect(formatPosition(raw)).toBe('0:12')
  expect(parseLetter('verify', raw)).toEqual({
    stage: 'verify',
    position: '0:12',
    reason: 'seal_broken',
    deadAtMs: DEAD_AT_MS,
    from: { topic: 'rows.to-verify.small.whatsapp', partition: '3', offset: '55' },
    tenant: 'org_a.live',
    job: 'job_a',
    service: 'whatsapp',
    rows: 3,
    bytes: 19,
  })
})

it('a dead letter can lack all headers', () => {
  const raw = { ...liveMessage(), ...inTopic, headers: {}, value: null }
  expect(parseLetter('feed', raw)).toEqual({
    stage: 'feed',
    position: '0:12',
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

const decision = { action: 'discarded', atMs: Date.UTC(2026, 0, 1), reason: 'a test' } as const
const record = { position: '0:12', decision }

it('a dead-letter decision is recorded in a message without content', () => {
  const message = decisionMessage('verify', record)
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
  expect(parseDecision(message.headers)).toEqual(record)
})

it('a dead letter is not a decision, even when its sender forged the headers', () => {
  const { headers } = decisionMessage('verify', record)
  expect(parseDecision({ ...headers, dead_stage: 'feed' })).toBeUndefined()
  expect(parseDecision({ dead_stage: 'feed' })).toBeUndefined()
  expect(parseDecision({ ...headers, done_as: 'forgotten' })).toBeUndefined()
})

it('the dead-letter index has the decisions about each letter in order', async () => {
  const { deps, die } = memoryDead()
  die('verify', 'first')
  die('verify', 'second')
  const replayed = { action: 'replayed', atMs: 1_000, reason: '' } as const
  const discarded = { action: 'discarded', atMs: 2_000, reason: 'w' } as const
  await deps.send([
    decisionMessage('verify', { position: '0:1', decision: replayed }),
    decisionMessage('verify', { position: '0:1', decision: discarded }),
    decisionMessage('verify', { position: '0:9', decision: discarded }),
  ])
  const letters = await readLetters(deps, 'verify')
  expect(letters.map(({ position, reason, decisions }) => [position, reason, decisions])).toEqual([
    ['0:0', 'first', []], ['0:1', 'second', [replayed, discarded]],
  ])
  expect(letters.map(isWaiting)).toEqual([true, false])
})

it('a dead-letter filter matches letters with all its fields', async () => {
  const { deps, die } = memoryDead()
  die('verify', 'seal_broken')
  const [letter] = await readLetters(deps, 'verify')
  if (letter === undefined) throw new Error('no letter was read')
  const matching = { position: '0:0', reason: 'seal_broken', job: 'job_a', tenant: 'org_a.live' }
  expect(matches(letter, {})).toBe(true)
  expect(matches(letter, matching)).toBe(true)
  for (const name of Object.keys(matching)) {
    expect(matches(letter, { ...matching, [name]: 'other' })).toBe(false)
  }
})
