import { expect, it } from 'vitest'
import { discard, replay } from '../../../../services/ops/dead/decide.ts'
import { entriesOf } from '../../../../services/ops/dead/look.ts'
import { UsageError } from '../../../../services/lib/run-command.ts'
import { liveMessage, memoryDead, NOW_MS } from './memory-dead.ts'

const choice = { stage: 'verify', filter: {}, again: false, yes: false, limit: 50 } as const
const one = (place: string) => ({ ...choice, filter: { place } })
const topicsOf = (sends: readonly (readonly { topic: string }[])[]) =>
  sends.map(messages => messages.map(({ topic }) => topic))

it('sends a letter back as it was, then notes that', async () => {
  const { parts, topics, sends, die } = memoryDead()
  die('verify', 'a')
  die('verify', 'b', { value: Buffer.from('second') })
  expect(await replay(parts, one('0:1')))
    .toEqual({ stage: 'verify', as: 'replayed', letters: ['0:1'], left: 0 })
  const live = liveMessage()
  expect(topics.get(live.topic)).toMatchObject([
    { key: live.key, value: Buffer.from('second'), headers: live.headers },
  ])
  expect(topicsOf(sends)).toEqual([[live.topic], ['verify.dead']])
  const done = (await entriesOf(parts, 'verify')).map(entry => entry.done)
  expect(done).toEqual([[], [{ as: 'replayed', atMs: NOW_MS, why: '' }]])
})

it('does so a second time only when told to', async () => {
  const { parts, topics, die } = memoryDead()
  die('verify', 'a')
  await replay(parts, one('0:0'))
  const again = replay(parts, one('0:0'))
  await expect(again).rejects.toThrow('Letter 0:0 of verify was replayed at 2026-01-02T03:05:35')
  expect(topics.get(liveMessage().topic)).toHaveLength(1)
  await replay(parts, { ...one('0:0'), again: true })
  expect(topics.get(liveMessage().topic)).toHaveLength(2)
})

it('notes a contact of a feed before it sends it, as each is a new one', async () => {
  const { parts, sends, die } = memoryDead()
  die('feed', 'undecodable', { topic: 'feeds.acme.submitted' })
  await replay(parts, { ...one('0:0'), stage: 'feed' })
  expect(topicsOf(sends)).toEqual([['feed.dead'], ['feeds.acme.submitted']])
})

it('sends nothing back that was too large to keep its content', async () => {
  const { parts, sends, die, topics } = memoryDead()
  die('feed', 'undecodable', { topic: 'feeds.acme.submitted' })
  const [letter] = topics.get('feed.dead') ?? []
  Object.assign(letter!.headers, { dead_value: 'left out, too large' })
  await expect(replay(parts, { ...one('0:0'), stage: 'feed' })).rejects.toThrow(UsageError)
  expect(sends).toEqual([])
})

it('takes several only when told to, so many at a time, those that wait', async () => {
  const { parts, die } = memoryDead()
  for (const reason of ['a', 'a', 'b', 'a']) die('verify', reason)
  await discard(parts, one('0:0'), 'not needed')
  const some = { ...choice, filter: { reason: 'a' }, limit: 1 }
  await expect(replay(parts, some)).rejects.toThrow(
    '1 letter of verify would be sent back (1 more are left, see --limit). Add --yes to do it.')
  expect(await replay(parts, { ...some, yes: true })).toMatchObject({ letters: ['0:1'], left: 1 })
  expect(await replay(parts, { ...some, yes: true })).toMatchObject({ letters: ['0:3'], left: 0 })
  await expect(replay(parts, { ...some, yes: true })).rejects.toThrow(UsageError)
})

it('discards with a reason, and sends nothing back', async () => {
  const { parts, topics, die } = memoryDead()
  die('verify', 'a')
  die('verify', 'a')
  expect(await discard(parts, { ...choice, yes: true }, 'a test'))
    .toEqual({ stage: 'verify', as: 'discarded', letters: ['0:0', '0:1'], left: 0 })
  expect([...topics.keys()]).toEqual(['verify.dead'])
  const [entry] = await entriesOf(parts, 'verify')
  expect(entry?.done).toEqual([{ as: 'discarded', atMs: NOW_MS, why: 'a test' }])
})

it('sends nothing at all when one of them has nowhere to go', async () => {
  const { parts, sends, die } = memoryDead()
  die('verify', 'a')
  die('verify', 'a', { topic: 'wallet.journal' })
  const sent = replay(parts, { ...choice, yes: true })
  await expect(sent).rejects.toThrow('Letter 0:1 came from no topic that verify reads')
  expect(sends).toEqual([])
  await expect(replay(parts, one('0:7'))).rejects.toThrow('There is no letter 0:7 in verify.dead')
})
