import { expect, it } from 'vitest'
import { createBoard, isWaiting, matches } from '../../../../services/ops/dead/board.ts'
import { noteMessage } from '../../../../services/ops/dead/notes.ts'
import { memoryDead } from './memory-dead.ts'

it('knows of each letter what was decided about it, in order', async () => {
  const { parts, die } = memoryDead()
  die('verify', 'first')
  die('verify', 'second')
  const replayed = { as: 'replayed', atMs: 1_000, why: '' } as const
  const discarded = { as: 'discarded', atMs: 2_000, why: 'w' } as const
  await parts.send([
    noteMessage('verify', { place: '0:1', done: replayed }),
    noteMessage('verify', { place: '0:1', done: discarded }),
    noteMessage('verify', { place: '0:9', done: discarded }),
  ])
  const board = createBoard('verify')
  await parts.read('verify.dead', messages => messages.forEach(board.add))
  const entries = board.entries()
  expect(entries.map(({ place, reason, done }) => [place, reason, done])).toEqual([
    ['0:0', 'first', []], ['0:1', 'second', [replayed, discarded]],
  ])
  expect(entries.map(isWaiting)).toEqual([true, false])
})

it('a filter means letters that fit all it names', async () => {
  const { parts, die } = memoryDead()
  die('verify', 'seal_broken')
  const board = createBoard('verify')
  await parts.read('verify.dead', messages => messages.forEach(board.add))
  const [entry] = board.entries()
  if (entry === undefined) throw new Error('there is a letter')
  const fits = { place: '0:0', reason: 'seal_broken', job: 'job_a', tenant: 'org_a.live' }
  expect(matches(entry, {})).toBe(true)
  expect(matches(entry, fits)).toBe(true)
  for (const name of Object.keys(fits)) {
    expect(matches(entry, { ...fits, [name]: 'other' })).toBe(false)
  }
})
