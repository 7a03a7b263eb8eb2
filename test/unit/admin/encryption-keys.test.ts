import { expect, it } from 'vitest'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { ConfigError } from '../../../services/runtime/platform/config.ts'

it.each(['list', 'rewrap'])('keys %s names the settings that it lacks', async name => {
  const run = () => createAdminProgram({ print: () => {} })
    .parseAsync(['--data', '/none', 'keys', name], { from: 'user' })
  await expect(run()).rejects.toThrow(ConfigError)
  await expect(run()).rejects.toThrow('RESULTS_ROOT_KEYS is missing')
})
