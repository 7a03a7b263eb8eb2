import { Command } from 'commander'
import { expect, it } from 'vitest'
import { ConfigError } from '../../../services/platform/config.ts'
import {
  addEncryptionKeyCommands,
} from '../../../services/admin/encryption-key-commands.ts'

it('the commands for keys name the settings that they lack, and rotate needs a name', async () => {
  const changed: unknown[] = []
  const run = async (...words: readonly string[]) => {
    const program = new Command('workspace').option('--json').option('--data <folder>', '', '/none')
    addEncryptionKeyCommands(program, {
      print: () => {},
      change: () => async options => { changed.push(options) },
    })
    await program.parseAsync(['keys', ...words], { from: 'user' })
  }
  for (const name of ['list', 'rewrap']) {
    await expect(run(name)).rejects.toThrow(ConfigError)
    await expect(run(name)).rejects.toThrow('RESULTS_ROOT_KEYS is missing')
  }
  await run('rotate', '--org', 'org_1')
  expect(changed).toEqual([{ org: 'org_1' }])
})
