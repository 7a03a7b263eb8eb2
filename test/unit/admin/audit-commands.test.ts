import { expect, it } from 'vitest'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { ConfigError } from '../../../services/runtime/platform/config.ts'

/** Runs a command in a folder without a stack. */
const run = (...words: readonly string[]) => createAdminProgram({ print: () => {} })
  .parseAsync(['--data', '/none', ...words], { from: 'user' })

it('the audit and the export of the access log name the settings that they lack', async () => {
  for (const words of [['audit'], ['access-log', '--org', 'org_1']]) {
    await expect(run(...words)).rejects.toThrow(ConfigError)
  }
})

it('the export of the access log rejects times and formats that it does not know', async () => {
  const exportWith = (...words: readonly string[]) => run('access-log', '--org', 'org_1', ...words)
  await expect(exportWith('--since', 'x')).rejects.toThrow('--since must be a time like 2026')
  await expect(exportWith('--format', 'xml')).rejects
    .toThrow('--format must be csv or ndjson, not "xml"')
})
