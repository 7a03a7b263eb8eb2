import { expect, it } from 'vitest'
import { deadLetter } from '../../../../services/engine/dead-letters.ts'
import { UsageError } from '../../../../services/platform/run-command.ts'
import {
  discard, isReadBy, originalMessage, replay,
} from '../../../../services/ops/dead/decide.ts'
import { readLetters } from '../../../../services/ops/dead/list.ts'
import { DEAD_AT_MS, liveMessage, memoryDead, NOW_MS } from './memory-dead.ts'

const selection = { stage: 'verify', filter: {}, again: false, yes: false, limit: 50 } as const
const one = (position: string) => ({ ...selection, filter: { position } })
const topicsOf = (sends: readonly (readonly { topic: string }[])[]) =>
  sends.map(messages => messages.map(({ topic }) => topic))

it('a replay of a dead letter sends the original message, then records the decision', async () => {
  const { deps, topics, sends, die } = memoryDead()
  die('verify', 'a')
  die('verify', 'b', { value: Buffer.from('second') })
  expect(await replay(deps, one('0:1')))
    .toEqual({ stage: 'verify', action: 'replayed', letters: ['0:1'], remaining: 0 })
  const live = liveMessage()
  expect(topics.get(live.topic)).toMatchObject([
    { key: live.key, value: Buffer.from('second'), headers: live.headers },
  ])
  expect(topicsOf(sends)).toEqual([[live.topic], ['verify.dead']])
  const decisions = (await readLetters(deps, 'verify')).map(letter => letter.decisions)
  expect(decisions).toEqual([[], [{ action: 'replayed', atMs: NOW_MS, reason: '' }]])
})

it('a second replay of a dead letter needs --again', async () => {
  const { deps, topics, die } = memoryDead()
  die('verify', 'a')
  await replay(deps, one('0:0'))
  const again = replay(deps, one('0:0'))
  await expect(again).rejects
    .toThrow('Letter 0:0 of verify was already replayed at 2026-01-02T03:05:35')
  expect(topics.get(liveMessage().topic)).toHaveLength(1)
  await replay(deps, { ...one('0:0'), again: true })
  expect(topics.get(liveMessage().topic)).toHaveLength(2)
})

it('a replay of a dead feed contact records the decision first', async () => {
  const { deps, sends, die } = memoryDead()
  die('feed', 'undecodable', { topic: 'feeds.acme.submitted' })
  await replay(deps, { ...one('0:0'), stage: 'feed' })
  expect(topicsOf(sends)).toEqual([['feed.dead'], ['feeds.acme.submitted']])
})

it('a dead letter without its content cannot be replayed', async () => {
  const { deps, sends, die, topics } = memoryDead()
  die('feed', 'undecodable', { topic: 'feeds.acme.submitted' })
  const [letter] = topics.get('feed.dead') ?? []
  Object.assign(letter!.headers, { dead_value: 'left out, too large' })
  await expect(replay(deps, { ...one('0:0'), stage: 'feed' })).rejects.toThrow(UsageError)
  expect(sends).toEqual([])
})

it('a replay of several dead letters needs --yes and keeps the limit', async () => {
  const { deps, die } = memoryDead()
  for (const reason of ['a', 'a', 'b', 'a']) die('verify', reason)
  await discard(deps, one('0:0'), 'not needed')
  const some = { ...selection, filter: { reason: 'a' }, limit: 1 }
  await expect(replay(deps, some)).rejects.toThrow(
    '1 letter of verify would be replayed (1 more are beyond --limit). Add --yes to confirm.')
  expect(await replay(deps, { ...some, yes: true }))
    .toMatchObject({ letters: ['0:1'], remaining: 1 })
  expect(await replay(deps, { ...some, yes: true }))
    .toMatchObject({ letters: ['0:3'], remaining: 0 })
  await expect(replay(deps, { ...some, yes: true })).rejects.toThrow(UsageError)
})

it('discarding dead letters records the reason and sends nothing', async () => {
  const { deps, topics, die } = memoryDead()
  die('verify', 'a')
  die('verify', 'a')
  expect(await discard(deps, { ...selection, yes: true }, 'a test'))
    .toEqual({ stage: 'verify', action: 'discarded', letters: ['0:0', '0:1'], remaining: 0 })
  expect([...topics.keys()]).toEqual(['verify.dead'])
  const [letter] = await readLetters(deps, 'verify')
  expect(letter?.decisions)
    .toEqual([{ action: 'discarded', atMs: NOW_MS, reason: 'a test' }])
})

it('a replay of dead letters sends nothing when one letter came from a foreign topic', async () => {
  const { deps, sends, die } = memoryDead()
  die('verify', 'a')
  die('verify', 'a', { topic: 'wallet.journal' })
  const sent = replay(deps, { ...selection, yes: true })
  await expect(sent).rejects
    .toThrow('Letter 0:1 came from topic "wallet.journal", which verify does not read')
  expect(sends).toEqual([])
  await expect(replay(deps, one('0:7'))).rejects.toThrow('Letter 0:7 does not exist in verify.dead')
})

const live = liveMessage()
const deadFrom = (topic: string) => {
  const raw = { ...live, topic }
  const { headers } = deadLetter('verify', { raw, reason: 'r' }, DEAD_AT_MS)
  return { ...live, topic: 'verify.dead', headers }
}

it('a replay of dead letters restores key, content, headers and topic', () => {
  expect(originalMessage('verify', deadFrom(live.topic))).toEqual({
    topic: 'rows.to-verify.small.whatsapp',
    key: 'job_a:1:0',
    value: live.value,
    headers: live.headers,
  })
})

it('a replay of dead letters goes only to topics that the stage reads', () => {
  for (const topic of ['rows.completed.small', 'wallet.journal', 'verify.dead', 'any', '']) {
    expect(originalMessage('verify', deadFrom(topic))).toBeUndefined()
  }
  expect(isReadBy('verify', 'rows.retry.bulk.telegram')).toBe(true)
  expect(isReadBy('feed', 'feeds.acme.submitted')).toBe(true)
  expect(isReadBy('feed', 'feeds.acme.finished')).toBe(false)
})
