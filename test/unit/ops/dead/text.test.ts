import { expect, it } from 'vitest'
import { discard } from '../../../../services/ops/dead/decide.ts'
import { list } from '../../../../services/ops/dead/look.ts'
import { decidedText, fieldsText, listText } from '../../../../services/ops/dead/text.ts'
import { memoryDead } from './memory-dead.ts'

it('a list is a line a letter', async () => {
  const { parts, die } = memoryDead()
  die('verify', 'seal_broken')
  die('verify', '', { headers: {} })
  const choice = { stage: 'verify', filter: { place: '0:0' }, again: false } as const
  await discard(parts, { ...choice, yes: false, limit: 1 }, 'a test')
  expect(listText(await list(parts, ['verify', 'settle'], { all: true }))).toBe([
    'waiting: verify 1, settle 0',
    'verify 0:0 | seal_broken | 1 min old | org_a.live | job_a | 3 rows | ' +
      'from rows.missed.small.whatsapp 3:55 | discarded 2026-01-02T03:05:35.000Z: a test',
    'verify 0:1 | no reason named | 1 min old | no tenant named | no job named | 0 rows | ' +
      'from rows.missed.small.whatsapp 3:55',
  ].join('\n'))
})

it('a decision names its letters and what is left', () => {
  const decided = { stage: 'verify', as: 'replayed', letters: ['0:1', '0:2'], left: 3 } as const
  expect(decidedText(decided))
    .toBe('verify: replayed 0:1, 0:2\n3 more fit; run this again for the next ones.')
  expect(decidedText({ ...decided, letters: [], left: 0 })).toBe('verify: replayed nothing')
})

it('fields are told one a line', () => {
  expect(fieldsText({ a: 1, b: { c: 'd' } })).toBe('a: 1\nb: {\n  "c": "d"\n}')
})
