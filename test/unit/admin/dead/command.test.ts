import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { AdminCommand } from '../../../../services/admin/admin-command.ts'
import { UsageError } from '../../../../services/runtime/platform/run-command.ts'
import {
  addDead, decidedText, fieldsText, listText, parseFilter, parsePosition, parseSelection,
  parseReadingStage,
} from '../../../../services/admin/dead/command.ts'
import { discard } from '../../../../services/admin/dead/decide.ts'
import type { withDeadLetters } from '../../../../services/admin/dead/inspector.ts'
import { list } from '../../../../services/admin/dead/letters.ts'
import { READING_STAGES } from '../../../../services/topology.ts'
import { memoryDead } from './memory-dead.ts'

let dead = memoryDead()
const open: typeof withDeadLetters = async (_env, work) => await work(dead.deps)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/ops-`)
  dead = memoryDead()
  dead.die('verify', 'seal_broken')
  dead.die('verify', 'undecodable')
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Returns the output of a command line. */
async function outputOf (...words: readonly string[]): Promise<string> {
  const lines: string[] = []
  const program = new AdminCommand('admin').option('--json').option('--data <folder>', '', folder)
  addDead(program, { print: line => { lines.push(line) } }, open)
  await program.parseAsync(['dead', ...words], { from: 'user' })
  return lines.join('\n')
}

it('dead list prints text or JSON for its options', async () => {
  expect((await outputOf('list', '--reason', 'undecodable')).split('\n')).toEqual([
    'waiting: feed 0, normalize 0, lookup 0, verify 2, settle 0, deliver 0, publish 0, ledger 0',
    expect.stringMatching(/^stage +letter +reason /),
    expect.stringMatching(/^verify +0:1 +undecodable /),
  ])
  const found = JSON.parse(await outputOf('list', '--stage', 'verify', '--json'))
  expect(found).toMatchObject({ waiting: { verify: 2 }, letters: [{ letter: '0:0' }, {}] })
  await expect(outputOf('list', '--stage', 'ingest')).rejects
    .toThrow('Stage ingest has no dead letters')
})

it('dead show prints the content only with --open', async () => {
  expect(await outputOf('show', 'verify', '0:0')).not.toContain('+12127365000')
  expect(await outputOf('show', 'verify', '0:0', '--open'))
    .toContain('content: sealed +12127365000')
})

it('dead replay and dead discard decide about the selected letters', async () => {
  dead.reports.push({ action: 'replayed', reason: 'taken' })
  dead.jobs.set('job_a', { status: 'completed', ended: true, chargedMicros: 3_000 })
  const taken = 'verify 0:0: taken, job job_a, completed, charged 3000 micros'
  expect(await outputOf('replay', 'verify', '0:0')).toBe(taken)
  await expect(outputOf('replay', 'verify', '0:0')).rejects.toThrow('Add --again')
  expect(await outputOf('replay', 'verify', '0:0', '--again')).toBe(taken)
  const discarded = await outputOf(
    'discard', 'verify', '--reason', 'a test', '--died-of', 'undecodable', '--yes', '--json')
  expect(JSON.parse(discarded))
    .toEqual({ stage: 'verify', action: 'discarded', letters: ['0:1'], remaining: 0 })
  await expect(outputOf('discard', 'verify', '0:1', '--again', '--reason', ' '))
    .rejects.toThrow('--reason is empty. Use --reason "text".')
  expect(await outputOf('list', '--stage', 'verify')).toBe('waiting: verify 0')
})

it('only stages that read topics have dead letters', () => {
  expect(READING_STAGES).toEqual([
    'feed', 'normalize', 'lookup', 'verify', 'settle', 'deliver', 'publish', 'ledger',
  ])
  expect(parseReadingStage('verify')).toBe('verify')
  expect(() => parseReadingStage('ingest'))
    .toThrow('The stages with dead letters are: feed, normalize,')
})

it('a dead-letter position is partition:offset', () => {
  expect(parsePosition('0:12')).toBe('0:12')
  for (const text of ['12', '0:', 'a:1', '0:1:2']) {
    expect(() => parsePosition(text)).toThrow(UsageError)
  }
})

it('a dead-letter selection is one letter or a filter', () => {
  expect(parseFilter('0:1', {})).toEqual({ position: '0:1' })
  expect(parseSelection('settle', '0:1', { limit: '50' })).toEqual({
    stage: 'settle', filter: { position: '0:1' }, again: false, yes: false, limit: 50,
  })
  const chosen = { job: 'j', tenant: 't', reason: 'r' }
  const options = { ...chosen, limit: '7', again: true, yes: true } as const
  expect(parseSelection('settle', undefined, options)).toEqual({
    stage: 'settle',
    filter: chosen,
    again: true,
    yes: true,
    limit: 7,
  })
})

it('an ambiguous dead-letter selection is rejected', () => {
  const limit = '50'
  expect(() => parseSelection('settle', '0:1', { job: 'j', limit })).toThrow('not both')
  expect(() => parseSelection('settle', undefined, { limit })).toThrow('No letter is selected')
  expect(parseSelection('settle', undefined, { yes: true, limit }).filter).toEqual({})
  for (const bad of ['0', '-1', 'x', '1.5']) {
    expect(() => parseSelection('settle', '0:1', { limit: bad }))
      .toThrow(`--limit ${bad} is not an integer`)
  }
})

it('a list of dead letters is a table with a line per letter', async () => {
  const { deps, die } = memoryDead()
  die('verify', 'seal_broken')
  die('verify', '', { headers: {} })
  const selection = { stage: 'verify', filter: { position: '0:0' }, again: false } as const
  await discard(deps, { ...selection, yes: false, limit: 1 }, 'a test')
  const text = listText(await list(deps, ['verify', 'settle'], { all: true }))
  expect(text.replaceAll(/ +/g, ' ').split('\n')).toEqual([
    'waiting: verify 1, settle 0',
    'stage letter reason age tenant job rows from decision',
    'verify 0:0 seal_broken 1 min org_a.live job_a 3 rows.to-verify.small.whatsapp 3:55 ' +
      'discarded 2026-01-02T03:05:35.000Z: a test',
    'verify 0:1 unknown 1 min unknown unknown 0 rows.to-verify.small.whatsapp 3:55 -',
  ])
})

it.each([
  [undefined, 'verify 0:0: not taken yet; the letter waits until its stage reports.'],
  ['ignored why', 'verify 0:0: ignored, why; the letter still waits'],
  ['replayed dead again: undecodable', 'verify 0:0: dead again, undecodable; it is a new letter'],
] as const)('a replay with the report "%s" ends with exit code 1', async (report, text) => {
  if (report !== undefined) {
    const [action = '', ...reason] = report.split(' ')
    dead.reports.push({ action: action as 'replayed', reason: reason.join(' ') })
  }
  const before = process.exitCode
  try {
    expect(await outputOf('replay', 'verify', '0:0', '--wait', '0')).toContain(text)
    expect(process.exitCode).toBe(1)
  } finally {
    process.exitCode = before
  }
  await expect(outputOf('replay', 'verify', '0:0', '--wait', 'x')).rejects
    .toThrow('--wait x is not a number of seconds from 0.')
})

it('a dead-letter decision is formatted with its letters and the remaining number', () => {
  const letters = ['0:1', '0:2']
  const decided = { stage: 'verify', action: 'discarded', letters, remaining: 3 } as const
  expect(decidedText(decided))
    .toBe('verify: discarded 0:1, 0:2\n3 more letters match. Run the command again for the next ' +
      'ones.')
  expect(decidedText({ ...decided, letters: [], remaining: 0 })).toBe('verify: discarded nothing')
})

it('the fields of a dead letter are formatted one per line', () => {
  expect(fieldsText({ a: 1, b: { c: 'd' } })).toBe('a: 1\nb: {\n  "c": "d"\n}')
})
