import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

it('the chart knows the topology, settings, alerts and dashboards of this release', async () => {
  const check = promisify(execFile)(process.execPath, ['deploy/chart.ts', '--check'])
  // It names the files that are out of date.
  await expect(check).resolves.toEqual({ stdout: '', stderr: '' })
})
