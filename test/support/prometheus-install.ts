import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Say } from '../../deploy/local/parts.ts'

const run = promisify(execFile)
const APT_PACKAGE = 'prometheus'

/**
 * Makes sure that the programs `prometheus` and `promtool` can be started; installs the package of
 * the system, which brings both, if need be. Throws with advice where that is not possible.
 */
export async function installPrometheus (say: Say): Promise<void> {
  if (await isThere()) return
  const advice = 'Rules and dashboards are tried with the real Prometheus. Install it (for ' +
    'example: sudo apt-get install prometheus).'
  if (process.getuid?.() !== 0) throw new Error(advice)
  say(`installing ${APT_PACKAGE} with apt-get (once)`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const install = () =>
    run('apt-get', ['install', '-y', '--no-install-recommends', APT_PACKAGE], { env })
  await install()
    .catch(async () => {
      await run('apt-get', ['update'], { env })
      await install()
    })
    .catch((error: Error) => { throw new Error(advice, { cause: error }) })
  if (!await isThere()) throw new Error(advice)
}

/** What promtool says; rejects with its words when it is not content. */
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
