import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { Command } from 'commander'
import { afterAll, describe, expect, it } from 'vitest'
import { addAudit, auditWords } from '../../../services/ops/audit.ts'
import { addDrain } from '../../../services/ops/drain/command.ts'
import { addJobs } from '../../../services/ops/jobs/command.ts'
import { addLag } from '../../../services/ops/lag/command.ts'
import { createProgram } from '../../../services/ops/program.ts'
import { addReplay } from '../../../services/ops/replay/command.ts'
import { addScaleAdvice } from '../../../services/ops/scale/command.ts'

const folder = mkdtempSync(`${tmpdir()}/ops-commands-`)
afterAll(() => rmSync(folder, { recursive: true }))

const parts = { lag: addLag, jobs: addJobs, drain: addDrain, replay: addReplay }
const silent = { write: () => {} }
const screen = { print: () => {}, terminal: silent, errors: silent }

/** What a command line shows; nothing of a stack is there. */
async function shown (...words: readonly string[]): Promise<string> {
  const lines: string[] = []
  await createProgram(line => { lines.push(line) }, { terminal: silent, errors: silent })
    .parseAsync(['--data', folder, ...words], { from: 'user' })
  return lines.join('\n')
}

describe('the commands', () => {
  it('are all there, each with examples', () => {
    const program = new Command('ops')
    for (const add of [...Object.values(parts), addScaleAdvice]) add(program, screen)
    addAudit(program)
    expect(program.commands.map(command => command.name()))
      .toEqual(['lag', 'jobs', 'drain', 'replay', 'scale-advice', 'audit'])
    for (const command of createProgram().commands.filter(one => one.name() !== 'dead')) {
      let help = ''
      command.configureOutput({ writeOut: text => { help += text } }).outputHelp()
      expect(help).toContain(`npm run ops -- ${command.name()}`)
    }
  })

  it('say what to type before they ask anybody', async () => {
    await expect(shown('lag', '--stage', 'verfy')).rejects.toThrow('There is no stage verfy')
    await expect(shown('lag', '--every', '0')).rejects.toThrow('--every is a number above 0')
    await expect(shown('jobs', '--stalled', 'x')).rejects.toThrow('--stalled is a number above 0')
    await expect(shown('jobs', '--limit', 'x')).rejects.toThrow('--limit is a whole number')
    await expect(shown('drain', '--timeout', 'x')).rejects.toThrow('--timeout is a number above 0')
    await expect(shown('replay', '--stage', 'deliver', '--from', '3'))
      .rejects.toThrow('An offset is of one partition')
    await expect(shown('scale-advice', '--rows-per-second', '1', '--utilization', '1.1'))
      .rejects.toThrow('--utilization is a share')
  })

  it('give advice from typed costs, as JSON', async () => {
    const found = JSON.parse(await shown('scale-advice', '--rows-per-second', '100000',
      '--cost', 'verify=7', '--utilization', '0.5', '--json'))
    const verify = found.stages.find(({ stage }: { stage: string }) => stage === 'verify')
    expect(verify).toMatchObject({ cores: 7, instances: 14 })
  })
})

it('asks the workspace for the audit', () => {
  expect(auditWords({ data: 'x' })).toEqual(['--data', 'x', 'audit'])
  expect(auditWords({ data: 'x', json: true, explain: true }))
    .toEqual(['--json', '--data', 'x', 'audit', '--explain'])
  expect(auditWords({ data: 'x', journalHead: 'heads.ndjson' }))
    .toEqual(['--data', 'x', 'audit', '--journal-head', 'heads.ndjson'])
  expect(auditWords({ data: 'x', full: true })).toEqual(['--data', 'x', 'audit', '--full'])
})
