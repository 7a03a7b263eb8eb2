import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync } from 'node:fs'
import { promisify } from 'node:util'
import { installOnce, type Say } from '../../../deploy/local/parts.ts'

const run = promisify(execFile)

/** The mail servers, and what the script that starts them calls. */
const PACKAGES = [
  'postfix', 'postgrey', 'dovecot-lmtpd', 'exim4-daemon-light', 'opensmtpd', 'dash', 'coreutils',
  'openssl', 'sed', 'grep', 'findutils', 'diffutils', 'hostname',
]
/** Debian packages exclude each other if both are mail servers, so each is resolved alone. */
const ADVICE = 'Mailboxes are checked on real mail servers of Debian 12 or newer, which are ' +
  'unpacked beside the system. This needs Linux, root, apt-get, and the right to create namespaces.'
const MAX_OUTPUT_BYTES = 16 * 1_024 ** 2

/**
 * A folder, among the downloads that are kept, with the mail servers of Debian and everything they
 * need in `system`, for `chroot`. Nothing is installed into the system of the machine.
 * @throws Error with advice where they cannot run.
 */
export async function installMailServers (say: Say): Promise<string> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) throw new Error(ADVICE)
  await run('unshare', ['--mount', '--pid', '--fork', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'])
    .catch((error: Error) => { throw new Error(ADVICE, { cause: error }) })
  return await installOnce('mail-servers-1', async (folder) => {
    say('downloading Exim, Postfix, OpenSMTPD and Dovecot with apt-get (60 MB, once)')
    const names = await resolvePackages()
      .catch(async () => {
        await run('apt-get', ['update'])
        return await resolvePackages()
      })
      .catch((error: Error) => { throw new Error(ADVICE, { cause: error }) })
    const archives = `${folder}/archives`
    for (const place of ['archives', 'run', 'system']) mkdirSync(`${folder}/${place}`)
    await run('apt-get', ['download', ...names], { cwd: archives, maxBuffer: MAX_OUTPUT_BYTES })
    for (const archive of readdirSync(archives)) {
      await run('dpkg-deb', ['-x', `${archives}/${archive}`, `${folder}/system`])
    }
    await run('rm', ['-r', archives])
    for (const place of ['dev', 'proc', 'run', 'tmp']) {
      mkdirSync(`${folder}/system/${place}`, { recursive: true })
    }
  })
}

/** The packages and all that they depend on, whatever the system has. */
async function resolvePackages (): Promise<readonly string[]> {
  const names = new Set<string>()
  for (const name of PACKAGES) {
    const { stdout } = await run('apt-get', [
      'install', '-y', '--print-uris', '--no-install-recommends',
      '-o', 'Dir::State::status=/dev/null', '-o', 'Debug::NoLocking=1', name,
    ], { maxBuffer: MAX_OUTPUT_BYTES })
    for (const [, file = ''] of stdout.matchAll(/^'\S+' (\S+?)_/gm)) names.add(file)
  }
  if (names.size === 0) throw new Error('apt-get names no packages')
  return [...names]
}
