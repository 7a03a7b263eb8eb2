import { expect, it } from 'vitest'
import { decisionMessage } from '../../../../services/runtime/engine/dead-letters.ts'
import {
  formatTime, list, readLetters, rowRanges, show, summarize, unknownLetter,
} from '../../../../services/admin/dead/letters.ts'
import { DEAD_AT_MS, liveMessage, memoryDead, NOW_MS } from './memory-dead.ts'

async function someDead () {
  const dead = memoryDead()
  dead.die('verify', 'seal_broken')
  dead.die('verify', 'undecodable')
  dead.die('settle', 'undecodable', { topic: 'rows.completed.small' })
  const decision = { action: 'replayed', atMs: 1_000, reason: '' } as const
  await dead.deps.send([decisionMessage('verify', { position: '0:0', decision })])
  return dead.deps
}

it('a list of dead letters has the waiting letters and their number by stage', async () => {
  const deps = await someDead()
  const listed = await list(deps, ['verify', 'settle', 'feed'], { job: 'job_a' })
  expect(listed.waiting).toEqual({ verify: 1, settle: 1, feed: 0 })
  expect(listed.letters.map(({ stage, letter }) => [stage, letter]))
    .toEqual([['verify', '0:1'], ['settle', '0:0']])
  const other = await list(deps, ['verify'], { job: 'job_b' })
  expect([other.waiting, other.letters]).toEqual([{ verify: 1 }, []])
})

it('a list of dead letters has decided letters only with all', async () => {
  const deps = await someDead()
  const { letters } = await list(deps, ['verify'], { all: true, reason: 'seal_broken' })
  expect(letters.map(({ letter, decision }) => [letter, decision?.action]))
    .toEqual([['0:0', 'replayed']])
  expect(await readLetters(deps, 'verify')).toHaveLength(2)
})

it('a dead letter is shown without its content', async () => {
  const details = await show(await someDead(), { stage: 'verify', position: '0:0' }, false)
  expect(details).toMatchObject({
    stage: 'verify',
    letter: '0:0',
    rowsOfJob: '11-12, 14',
    jobStatus: 'org_a.live job_a',
    history: [{ action: 'replayed', at: '1970-01-01T00:00:01.000Z', reason: '' }],
    headers: { dead_reason: 'seal_broken', rows: '4 bytes' },
    keyBytes: 9,
    envelope: { chunk: 1 },
  })
  expect(JSON.stringify(details)).not.toContain('+12127365000')
})

it('a dead letter is shown with its content and a warning on request', async () => {
  const details = await show(await someDead(), { stage: 'verify', position: '0:0' }, true)
  expect(Object.keys(details)[0]).toBe('warning')
  expect(details.content).toBe('sealed +12127365000')
})

it('a dead contact of a feed has no job', async () => {
  const { deps, die } = memoryDead()
  die('feed', 'undecodable', { topic: 'feeds.acme.submitted' })
  const details = await show(deps, { stage: 'feed', position: '0:0' }, false)
  expect(details.jobStatus).toBe('no job')
})

it('a dead-letter decision cannot be shown as a letter', async () => {
  const deps = await someDead()
  const message = unknownLetter('verify', '0:2').message
  await expect(show(deps, { stage: 'verify', position: '0:2' }, false)).rejects.toThrow(message)
})

it('the summary of a dead letter has everything except the content', async () => {
  const { deps, die } = memoryDead()
  die('verify', 'seal_broken')
  const [letter] = await readLetters(deps, 'verify')
  if (letter === undefined) throw new Error('verify.dead has no letter')
  const summary = summarize(letter, NOW_MS)
  expect(summary).toEqual({
    stage: 'verify',
    letter: '0:0',
    reason: 'seal_broken',
    deadAt: '2026-01-02T03:04:05.000Z',
    ageSeconds: 90,
    tenant: 'org_a.live',
    job: 'job_a',
    service: 'whatsapp',
    rows: 3,
    bytes: 19,
    from: 'rows.to-verify.small.whatsapp 3:55',
    decision: null,
  })
  const decisions = [
    { action: 'replayed', atMs: DEAD_AT_MS, reason: '' },
    { action: 'discarded', atMs: NOW_MS, reason: 'w' },
  ] as const
  expect(summarize({ ...letter, deadAtMs: NaN, decisions }, NOW_MS)).toMatchObject({
    deadAt: null,
    ageSeconds: null,
    decision: { action: 'discarded', at: '2026-01-02T03:05:35.000Z', reason: 'w', count: 2 },
  })
})

it('the row ranges of a dead letter count from 1', () => {
  expect(rowRanges(liveMessage().headers)).toBe('11-12, 14')
  expect(rowRanges({ tenant: 't' })).toBe('unknown')
})

it('an unknown time of death is null', () => {
  expect([formatTime(0), formatTime(NaN)]).toEqual(['1970-01-01T00:00:00.000Z', null])
})
