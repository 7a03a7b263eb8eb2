import { expect, it } from 'vitest'
import { deadLetter } from '../../../../services/runtime/engine/dead-letters.ts'
import { UsageError } from '../../../../services/runtime/platform/run-command.ts'
import {
  discard, isReadBy, replay, replayMessage,
} from '../../../../services/admin/dead/decide.ts'
import { isWaiting, readLetters } from '../../../../services/admin/dead/letters.ts'
import { DEAD_AT_MS, liveMessage, memoryDead, NOW_MS } from './memory-dead.ts'

const selection = { stage: 'verify', filter: {}, again: false, yes: false, limit: 50 } as const
const AT_ONCE = { waitMs: 0 }
const one = (position: string) => ({ ...selection, filter: { position } })
const topicsOf = (sends: readonly (readonly { topic: string }[])[]) =>
  sends.map(messages => messages.map(({ topic }) => topic))

it('a replay of a dead letter sends the original message, and waits for the report', async () => {
  const { deps, topics, sends, die, reports, jobs } = memoryDead()
  die('verify', 'a')
  die('verify', 'b', { value: Buffer.from('second') })
  reports.push({ action: 'replayed', reason: 'taken' })
  jobs.set('job_a', { status: 'completed', ended: true, chargedMicros: 3_000 })
  expect(await replay(deps, one('0:1'), AT_ONCE)).toEqual({
    stage: 'verify',
    letters: [{
      letter: '0:1',
      outcome: 'taken',
      reason: 'taken',
      job: 'job_a',
      jobStatus: 'completed',
      jobChargedMicros: 3_000,
    }],
    remaining: 0,
  })
  const live = liveMessage()
  expect(topics.get(live.topic)).toMatchObject([
    { key: live.key, value: Buffer.from('second'), headers: { ...live.headers, replay_of: '0:1' } },
  ])
  // The command itself records nothing: a letter leaves the list when its stage reports.
  expect(topicsOf(sends)).toEqual([[live.topic]])
  const decisions = (await readLetters(deps, 'verify')).map(letter => letter.decisions)
  expect(decisions).toEqual([[], [{ action: 'replayed', atMs: NOW_MS, reason: 'taken' }]])
})

it('a second replay of a dead letter needs --again', async () => {
  const { deps, topics, die, reports } = memoryDead()
  die('verify', 'a')
  reports.push({ action: 'replayed', reason: 'taken' })
  await replay(deps, one('0:0'), AT_ONCE)
  const again = replay(deps, one('0:0'), AT_ONCE)
  await expect(again).rejects
    .toThrow('Letter 0:0 of verify was already replayed at 2026-01-02T03:05:35')
  expect(topics.get(liveMessage().topic)).toHaveLength(1)
  await replay(deps, { ...one('0:0'), again: true }, AT_ONCE)
  expect(topics.get(liveMessage().topic)).toHaveLength(2)
})

it('a letter stays in the list until its replay is taken', async () => {
  const { deps, die, reports, asked } = memoryDead()
  die('verify', 'a')
  const progress: unknown[] = []
  const pending = await replay(deps, one('0:0'), {
    waitMs: 1_000, onProgress: counts => { progress.push(counts) },
  })
  expect(pending.letters).toMatchObject([{ outcome: 'pending' }])
  expect(progress[0]).toEqual({ sent: 1, reported: 0 })
  reports.push(
    { action: 'ignored', reason: 'why' }, { action: 'replayed', reason: 'dead again: undecodable' })
  const ignored = await replay(deps, one('0:0'), AT_ONCE)
  expect(ignored.letters).toMatchObject([{ outcome: 'ignored', reason: 'why' }])
  expect((await readLetters(deps, 'verify')).map(isWaiting)).toEqual([true])
  const dead = await replay(deps, one('0:0'), AT_ONCE)
  expect(dead.letters).toMatchObject([{ outcome: 'dead', reason: 'undecodable' }])
  expect((await readLetters(deps, 'verify')).map(isWaiting)).toEqual([false])
  expect(asked).toEqual([])
})

it('a replayed contact of a feed keeps its partition, its offset and its time', async () => {
  const { deps, sends, die, reports, asked } = memoryDead()
  const topic = 'feeds.acme.submitted'
  const headers = { replay_of: '9:9', replay_offset: '1', mine: 'x' }
  die('feed', 'undecodable', { topic, partition: 2, headers })
  reports.push({ action: 'replayed', reason: 'taken by a job', job: 'job_9' })
  const { letters } = await replay(deps, { ...one('0:0'), stage: 'feed' }, AT_ONCE)
  expect(sends).toMatchObject([[{ topic, partition: 2 }]])
  expect(sends[0]?.[0]?.headers).toEqual({
    mine: 'x',
    replay_of: '0:0',
    replay_offset: '55',
    replay_dead_at: String(DEAD_AT_MS),
    replay_at: String(NOW_MS),
  })
  expect(letters).toMatchObject([{ outcome: 'taken', job: 'job_9' }])
  expect(asked).toEqual([{ tenant: '', topic, job: 'job_9' }])
})

it('a dead letter without its content cannot be replayed', async () => {
  const { deps, sends, die, topics } = memoryDead()
  die('feed', 'undecodable', { topic: 'feeds.acme.submitted' })
  const [letter] = topics.get('feed.dead') ?? []
  Object.assign(letter!.headers, { dead_value: 'left out, too large' })
  await expect(replay(deps, { ...one('0:0'), stage: 'feed' }, AT_ONCE)).rejects.toThrow(UsageError)
  expect(sends).toEqual([])
})

it('a replay of several dead letters needs --yes and keeps the limit', async () => {
  const { deps, die, reports } = memoryDead()
  reports.push({ action: 'replayed', reason: 'taken' })
  for (const reason of ['a', 'a', 'b', 'a']) die('verify', reason)
  await discard(deps, one('0:0'), 'not needed')
  const some = { ...selection, filter: { reason: 'a' }, limit: 1 }
  await expect(replay(deps, some, AT_ONCE)).rejects.toThrow(
    '1 letter of verify would be replayed (1 more are beyond --limit). Add --yes to confirm.')
  expect(await replay(deps, { ...some, yes: true }, AT_ONCE))
    .toMatchObject({ letters: [{ letter: '0:1' }], remaining: 1 })
  expect(await replay(deps, { ...some, yes: true }, AT_ONCE))
    .toMatchObject({ letters: [{ letter: '0:3' }], remaining: 0 })
  await expect(replay(deps, { ...some, yes: true }, AT_ONCE)).rejects.toThrow(UsageError)
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
  const sent = replay(deps, { ...selection, yes: true }, AT_ONCE)
  await expect(sent).rejects
    .toThrow('Letter 0:1 came from topic "wallet.journal", which verify does not read')
  expect(sends).toEqual([])
  await expect(replay(deps, one('0:7'), AT_ONCE)).rejects
    .toThrow('Letter 0:7 does not exist in verify.dead')
})

const live = liveMessage()
const deadFrom = (topic: string) => {
  const raw = { ...live, topic }
  const { headers } = deadLetter('verify', { raw, reason: 'r' }, DEAD_AT_MS)
  return { ...live, topic: 'verify.dead', headers }
}

it('a replay of dead letters restores key, content, headers, topic and partition', () => {
  expect(replayMessage('verify', deadFrom(live.topic), NOW_MS)).toEqual({
    topic: 'rows.to-verify.small.whatsapp',
    key: 'job_a:1:0',
    value: live.value,
    headers: { ...live.headers, replay_of: '3:55' },
    partition: 3,
  })
})

it('a replay of dead letters goes only to topics that the stage reads', () => {
  for (const topic of ['rows.completed.small', 'wallet.journal', 'verify.dead', 'any', '']) {
    expect(replayMessage('verify', deadFrom(topic), NOW_MS)).toBeUndefined()
  }
  expect(isReadBy('verify', 'rows.retry.bulk.telegram')).toBe(true)
  expect(isReadBy('feed', 'feeds.acme.submitted')).toBe(true)
  expect(isReadBy('feed', 'feeds.acme.finished')).toBe(false)
})
