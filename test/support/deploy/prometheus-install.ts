import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Say } from '../../../deploy/local/parts.ts'
import { installPackages } from './system-tools.ts'

const run = promisify(execFile)

/**
 * Makes sure that the programs `prometheus` and `promtool` can be started; installs the package of
 * the system, which brings both, if need be. Throws with advice where that is not possible.
 */
export async function installPrometheus (say: Say): Promise<void> {
  if (await isThere()) return
  const advice = 'Rules and dashboards are tried with the real Prometheus. Install it (for ' +
    'example: sudo apt-get install prometheus).'
  await installPackages({ packages: ['prometheus'], advice, say })
  if (!await isThere()) throw new Error(advice)
}

/** The output of promtool; rejects with it when a check fails. */
export async function promtool (args: readonly string[], cwd: string): Promise<string> {
  await installPrometheus(console.log)
  return await run('promtool', [...args], { cwd }).then(({ stdout }) => stdout,
    (error: { readonly stdout: string, readonly stderr: string }) => {
      throw new Error(`promtool ${args.join(' ')}\n${error.stdout}${error.stderr}`)
    })
}

async function isThere (): Promise<boolean> {
  const answers = await Promise.all(['prometheus', 'promtool'].map(name =>
    run(name, ['--version']).then(() => true, () => false)))
  return answers.every(answer => answer)
}
