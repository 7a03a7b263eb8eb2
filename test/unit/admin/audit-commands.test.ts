import { Command } from 'commander'
import { expect, it } from 'vitest'
import { ConfigError } from '../../../services/platform/config.ts'
import {
  addAccessLogCommand, addAuditCommand,
} from '../../../services/admin/audit-commands.ts'

/** The program with both commands, in a folder without a stack. */
function createProgram () {
  const program = new Command('workspace').option('--json').option('--data <folder>', '', '/none')
  addAuditCommand(program, () => {})
  addAccessLogCommand(program, () => {})
  return program
}

it('the audit and the export of the access log name the settings that they lack', async () => {
  for (const words of [['audit'], ['access-log', '--org', 'org_1']]) {
    await expect(createProgram().parseAsync(words, { from: 'user' })).rejects.toThrow(ConfigError)
  }
})

it('the export of the access log rejects times and formats that it does not know', async () => {
  const run = (...words: readonly string[]) =>
    createProgram().parseAsync(['access-log', '--org', 'org_1', ...words], { from: 'user' })
  await expect(run('--since', 'x')).rejects.toThrow('--since must be a time like 2026')
  await expect(run('--format', 'xml')).rejects.toThrow('--format must be csv or ndjson, not "xml"')
})
