import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { Command } from 'commander'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { withDeadLetters } from '../../../services/ops/dead/parts.ts'
import { addDead } from '../../../services/ops/dead/command.ts'
import { createProgram } from '../../../services/ops/program.ts'
import { memoryDead } from './dead/memory-dead.ts'

let dead = memoryDead()
const open: typeof withDeadLetters = async (_env, work) => await work(dead.parts)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(`${tmpdir()}/ops-`)
  dead = memoryDead()
  dead.die('verify', 'seal_broken')
  dead.die('verify', 'undecodable')
})
afterEach(() => rmSync(folder, { recursive: true }))

/** What a command line shows. */
async function shown (...words: readonly string[]): Promise<string> {
  const lines: string[] = []
  const program = new Command('ops').option('--json').option('--data <folder>', '', folder)
  addDead(program, line => { lines.push(line) }, open)
  await program.parseAsync(['dead', ...words], { from: 'user' })
  return lines.join('\n')
}

it('lists by its options, for people and for scripts', async () => {
  expect((await shown('list', '--reason', 'undecodable')).split('\n')).toEqual([
    'waiting: feed 0, normalize 0, lookup 0, verify 2, settle 0, deliver 0, publish 0, ledger 0',
    expect.stringMatching(/^verify 0:1 \| undecodable \|/),
  ])
  const found = JSON.parse(await shown('list', '--stage', 'verify', '--json'))
  expect(found).toMatchObject({ waiting: { verify: 2 }, letters: [{ letter: '0:0' }, {}] })
  await expect(shown('list', '--stage', 'ingest')).rejects.toThrow('Only these stages')
})

it('shows the content of a letter only with --open', async () => {
  expect(await shown('show', 'verify', '0:0')).not.toContain('+12127365000')
  expect(await shown('show', 'verify', '0:0', '--open')).toContain('content: sealed +12127365000')
})

it('replays and discards what is named', async () => {
  expect(await shown('replay', 'verify', '0:0')).toBe('verify: replayed 0:0')
  await expect(shown('replay', 'verify', '0:0')).rejects.toThrow('Add --again')
  expect(await shown('replay', 'verify', '0:0', '--again')).toBe('verify: replayed 0:0')
  const discarded = await shown(
    'discard', 'verify', '--reason', 'a test', '--died-of', 'undecodable', '--yes', '--json')
  expect(JSON.parse(discarded))
    .toEqual({ stage: 'verify', as: 'discarded', letters: ['0:1'], left: 0 })
  await expect(shown('discard', 'verify', '0:1', '--again', '--reason', ' '))
    .rejects.toThrow('Say why: --reason "text".')
  expect(await shown('list', '--stage', 'verify')).toBe('waiting: verify 0')
})

it('has one command for all of this', () => {
  const program = new Command('ops')
  addDead(program, () => {})
  const [dead] = program.commands
  expect(dead?.commands.map(command => command.name()))
    .toEqual(['list', 'show', 'replay', 'discard'])
  expect(createProgram().commands.map(command => command.name())).toEqual(
    ['lag', 'jobs', 'pause', 'resume', 'scale-advice', 'replay', 'drain', 'dead',
      'journal', 'audit'])
})
