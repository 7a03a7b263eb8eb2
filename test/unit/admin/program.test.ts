import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { Command } from 'commander'
import { afterAll, describe, expect, it } from 'vitest'
import { addDrain } from '../../../services/admin/drain.ts'
import { addJobs } from '../../../services/admin/jobs.ts'
import { addLag } from '../../../services/admin/lag.ts'
import { addAudit, auditArguments, createOpsProgram } from '../../../services/admin/program.ts'
import { addReplay } from '../../../services/admin/replay.ts'

const folder = mkdtempSync(`${tmpdir()}/ops-commands-`)
afterAll(() => rmSync(folder, { recursive: true }))

const commands = { lag: addLag, jobs: addJobs, drain: addDrain, replay: addReplay }
const silent = { write: () => {} }
const screen = { print: () => {}, terminal: {}, errors: silent }

/** Returns the output of a command line, without any stack. */
async function outputOf (...words: readonly string[]): Promise<string> {
  const lines: string[] = []
  await createOpsProgram(line => { lines.push(line) }, { terminal: {}, errors: silent })
    .parseAsync(['--data', folder, ...words], { from: 'user' })
  return lines.join('\n')
}

describe('the commands of operators', () => {
  it('have examples in their help', () => {
    const program = new Command('ops')
    for (const add of Object.values(commands)) add(program, screen)
    addAudit(program)
    expect(program.commands.map(command => command.name()))
      .toEqual(['lag', 'jobs', 'drain', 'replay', 'audit'])
    for (const command of createOpsProgram().commands.filter(one => one.name() !== 'dead')) {
      let help = ''
      command.configureOutput({ writeOut: text => { help += text } }).outputHelp()
      expect(help).toContain(`npm run ops -- ${command.name()}`)
    }
  })

  it('reject invalid options before they connect', async () => {
    await expect(outputOf('lag', '--once', '--stage', 'verfy')).rejects
      .toThrow('Stage verfy does not exist')
    await expect(outputOf('jobs', '--stalled', 'x')).rejects
      .toThrow('--stalled x is not a number above 0')
    await expect(outputOf('jobs', '--limit', 'x')).rejects.toThrow('--limit x is not an integer')
    await expect(outputOf('drain', '--timeout', 'x')).rejects
      .toThrow('--timeout x is not a number above 0')
    await expect(outputOf('replay', '--stage', 'deliver', '--from', '3'))
      .rejects.toThrow('--from 3 is an offset, which needs one partition')
  })
})

it('the audit passes its options to the workspace program', () => {
  expect(auditArguments({ data: 'x' })).toEqual(['--data', 'x', 'audit'])
  expect(auditArguments({ data: 'x', json: true, explain: true }))
    .toEqual(['--json', '--data', 'x', 'audit', '--explain'])
  expect(auditArguments({ data: 'x', journalHead: 'heads.ndjson' }))
    .toEqual(['--data', 'x', 'audit', '--journal-head', 'heads.ndjson'])
  expect(auditArguments({ data: 'x', full: true })).toEqual(['--data', 'x', 'audit', '--full'])
})
