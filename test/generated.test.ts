import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { root } from './support/sources.ts'

it('what "npm run generate" writes is that of this release', async () => {
  const check = promisify(execFile)(process.execPath, [
    '--disable-warning=ExperimentalWarning', 'deploy/generate.ts', '--check',
  ], { cwd: root })
  // It names the files that are out of date.
  const printed = await check.then(
    ({ stdout, stderr }) => stdout + stderr,
    (error: { readonly stderr?: string }) => error.stderr || String(error))
  expect(printed).toBe('')
})
