import { expect, it } from 'vitest'
import { deadLetter } from '../../../../services/lib/dead-letters.ts'
import { isReadBy, resent } from '../../../../services/ops/dead/resend.ts'
import { DEAD_AT_MS, liveMessage } from './memory-dead.ts'

const live = liveMessage()
const deadFrom = (topic: string) => {
  const raw = { ...live, topic }
  const { headers } = deadLetter('verify', { raw, reason: 'r' }, DEAD_AT_MS)
  return { ...live, topic: 'verify.dead', headers }
}

it('a letter goes back to its topic as the message that it was', () => {
  expect(resent('verify', deadFrom(live.topic))).toEqual({
    topic: 'rows.missed.small.whatsapp',
    key: 'job_a:1:0',
    value: live.value,
    headers: live.headers,
  })
})

it('a letter goes nowhere but to topics that its stage reads', () => {
  for (const topic of ['rows.finished.small', 'wallet.journal', 'verify.dead', 'any', '']) {
    expect(resent('verify', deadFrom(topic))).toBeUndefined()
  }
  expect(isReadBy('verify', 'rows.later.bulk.telegram')).toBe(true)
  expect(isReadBy('feed', 'feeds.acme.submitted')).toBe(true)
  expect(isReadBy('feed', 'feeds.acme.finished')).toBe(false)
})
