import { expect, it } from 'vitest'
import { entriesOf, list, noLetter, show } from '../../../../services/ops/dead/look.ts'
import { noteMessage } from '../../../../services/ops/dead/notes.ts'
import { memoryDead } from './memory-dead.ts'

async function someDead () {
  const dead = memoryDead()
  dead.die('verify', 'seal_broken')
  dead.die('verify', 'undecodable')
  dead.die('settle', 'undecodable', { topic: 'rows.finished.small' })
  const done = { as: 'replayed', atMs: 1_000, why: '' } as const
  await dead.parts.send([noteMessage('verify', { place: '0:0', done })])
  return dead.parts
}

it('lists what waits, and counts it by stage', async () => {
  const parts = await someDead()
  const listed = await list(parts, ['verify', 'settle', 'feed'], { job: 'job_a' })
  expect(listed.waiting).toEqual({ verify: 1, settle: 1, feed: 0 })
  expect(listed.letters.map(({ stage, letter }) => [stage, letter]))
    .toEqual([['verify', '0:1'], ['settle', '0:0']])
  const other = await list(parts, ['verify'], { job: 'job_b' })
  expect([other.waiting, other.letters]).toEqual([{ verify: 1 }, []])
})

it('lists what was decided about only when asked to', async () => {
  const parts = await someDead()
  const { letters } = await list(parts, ['verify'], { all: true, reason: 'seal_broken' })
  expect(letters.map(({ letter, done }) => [letter, done?.as])).toEqual([['0:0', 'replayed']])
  expect(await entriesOf(parts, 'verify')).toHaveLength(2)
})

it('shows a letter without its content', async () => {
  const shown = await show(await someDead(), { stage: 'verify', place: '0:0' }, false)
  expect(shown).toMatchObject({
    stage: 'verify',
    letter: '0:0',
    rowsOfJob: '11-12, 14',
    standing: 'org_a.live job_a',
    history: [{ as: 'replayed', at: '1970-01-01T00:00:01.000Z', why: '' }],
    headers: { dead_reason: 'seal_broken', rows: '4 bytes' },
    keyBytes: 9,
    envelope: { chunk: 1 },
  })
  expect(JSON.stringify(shown)).not.toContain('+12127365000')
})

it('shows the content with a warning when asked to', async () => {
  const shown = await show(await someDead(), { stage: 'verify', place: '0:0' }, true)
  expect(Object.keys(shown)[0]).toBe('warning')
  expect(shown.content).toBe('sealed +12127365000')
})

it('asks nobody about the job of a contact', async () => {
  const { parts, die } = memoryDead()
  die('feed', 'undecodable', { topic: 'feeds.acme.submitted' })
  const shown = await show(parts, { stage: 'feed', place: '0:0' }, false)
  expect(shown.standing).toBe('no job')
})

it('a note is no letter', async () => {
  const parts = await someDead()
  const message = noLetter('verify', '0:2').message
  await expect(show(parts, { stage: 'verify', place: '0:2' }, false)).rejects.toThrow(message)
})
