import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { installOnce } from '../../../deploy/local/install.ts'
import type { Say } from '../../../deploy/local/parts.ts'

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

const HARAKA = '3.3.4'

/** The folder with Haraka in `node_modules`, kept among the downloads. */
export async function installHaraka (say: Say): Promise<string> {
  return await installOnce(`haraka-${HARAKA}`, async (folder) => {
    say(`downloading Haraka ${HARAKA} with npm (42 MB, once)`)
    await run('npm', ['install', '--prefix', folder, '--omit=optional', '--ignore-scripts',
      '--no-audit', '--no-fund', `Haraka@${HARAKA}`])
  })
}

const PEER = `${import.meta.dirname}/peer`

/** The version of check-if-email-exists that `peer/Cargo.toml` names. */
export function peerVersion (): string {
  const version = /^check-if-email-exists = "=(.+)"$/m
    .exec(readFileSync(`${PEER}/Cargo.toml`, 'utf8'))?.[1]
  if (version === undefined) throw new Error(`${PEER}/Cargo.toml names no check-if-email-exists`)
  return version
}

/**
 * The program that asks check-if-email-exists, built once from `peer/` and kept with the downloads.
 * @throws Error with advice where there is no cargo, or what it says if it fails.
 */
export async function buildPeer (say: Say): Promise<string> {
  await run('cargo', ['--version']).catch(() => {
    throw new Error('check-if-email-exists is built with cargo, which is missing. Install Rust ' +
      '(https://rustup.rs), or leave out --peers.')
  })
  const hash = createHash('sha256')
  for (const file of ['Cargo.toml', 'Cargo.lock', 'main.rs']) {
    hash.update(readFileSync(`${PEER}/${file}`))
  }
  const name = `check-if-email-exists-${peerVersion()}-${hash.digest('hex').slice(0, 16)}`
  const home = await installOnce(name, async (folder) => {
    say('building check-if-email-exists with cargo (some minutes, once)')
    await run('cargo', ['build', '--quiet', '--release', '--locked', '--manifest-path',
      `${PEER}/Cargo.toml`, '--target-dir', `${folder}/target`], { maxBuffer: MAX_OUTPUT_BYTES })
    copyFileSync(`${folder}/target/release/peer`, `${folder}/peer`)
    await run('rm', ['-r', `${folder}/target`])
  })
  return `${home}/peer`
}
