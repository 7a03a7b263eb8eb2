import { execFile, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { installOnce, works } from '../../deploy/local/install.ts'
import type { Say } from '../../deploy/local/parts.ts'
import { cacheFolder, findOrInstall } from '../support/deploy/tools.ts'
import { root } from '../support/sources.ts'

const run = promisify(execFile)
const MAX_OUTPUT_BYTES = 64 * 1_024 * 1_024
const POLL_MS = 200
/** The engine, its client and Compose as Debian packages them, and what its namespaces need. */
const PACKAGES = [
  'docker.io', 'docker-cli', 'docker-compose', 'docker-buildx', 'iptables', 'ca-certificates',
  'passt', 'tini', 'containernetworking-plugins',
]
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

type Env = Readonly<Record<string, string>>

/** A container engine with Compose. */
export type Engine = {
  /** The engine of this machine, or one that was started for the tests. */
  readonly kind: 'found' | 'started'
  /** Runs a program beside the engine, in the checkout; the output, or an Error with it. */
  readonly run: (command: readonly string[], env?: Env) => Promise<string>
  readonly close: () => Promise<void>
}

/** An engine in namespaces of its own. */
export type OwnEngine = Engine & {
  /** What is kept there is seen under the same path inside and outside. */
  readonly folder: string
  /** What to put before a command line so that it runs beside the containers, in this folder. */
  readonly enter: (folder: string) => readonly string[]
}

/** The engine of this machine as `docker` reaches it, if there is one with Compose. */
export async function findEngine (): Promise<Engine | undefined> {
  const found: Engine = {
    kind: 'found',
    run: (command, env = {}) => runProgram(command, { ...process.env, ...env }),
    close: async () => undefined,
  }
  return await run('docker', ['info'], { timeout: 5_000 })
    .then(() => found.run(['docker', 'compose', 'version']))
    .then(() => found, () => undefined)
}

/**
 * Starts an engine in namespaces of its own, whose containers publish these ports on 127.0.0.1. It
 * ends with `close` and with this process, and leaves nothing but images in the cache folder.
 * Throws with the reason where that is not possible.
 */
export async function startEngine (
  { ports, say }: { readonly ports: readonly number[], readonly say: Say }
): Promise<OwnEngine> {
  const system = await installSystem(say)
  const data = `${cacheFolder()}/container-engine`
  mkdirSync(data, { recursive: true })
  const log = openSync(`${data}/log`, 'w')
  const script = `${import.meta.dirname}/engine.sh`
  const folders = [...new Set([root, cacheFolder(), dirname(process.execPath)])]
  const child = spawn('unshare', ['--mount', '--pid', '--fork', '--kill-child',
    'sh', script, system, data, ports.join(), ...folders], {
    // Ctrl-C reaches the tests alone. However they end, the input ends, and then the engine.
    detached: true,
    stdio: ['pipe', log, log],
    // The engine has a /tmp of its own, without the folder of this run.
    env: { ...process.env, TMPDIR: '/tmp' },
  })
  closeSync(log)
  const hasEnded = new Promise<void>(resolve => { child.once('close', () => resolve()) })
  const close = async () => {
    child.stdin?.end()
    await hasEnded
  }
  const inside = (command: readonly string[], env: Env = {}) =>
    runProgram(['nsenter', `--mount=/proc/${child.pid}/ns/mnt`, '--', 'env', '-i', '-C', root,
      `PATH=${PATH}`, 'HOME=/root', ...Object.entries(env).map(pair => pair.join('=')), ...command])
  while (!await inside(['docker', 'info']).then(() => true, () => false)) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`the container engine did not start: ${lastLineOf(`${data}/log`)}`)
    }
    await sleep(POLL_MS)
  }
  const init = firstProcess(Number(child.pid))
  return {
    kind: 'started',
    run: inside,
    close,
    folder: data,
    enter: folder => ['nsenter', `--target=${init}`, '--mount', '--net', '--pid', '--ipc', '--uts',
      '--', 'env', '-i', '-C', folder, `PATH=${PATH}`, 'HOME=/root'],
  }
}

/** The process that is the first in the namespaces of the engine, which descends from this one. */
function firstProcess (ancestor: number): number {
  for (let pid = ancestor; ;) {
    if (readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'tini') return pid
    pid = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim())
  }
}

/** The root folder of a Debian with the engine; installed by debootstrap when it is missing. */
async function installSystem (say: Say): Promise<string> {
  await requireNamespaces()
  return await bootstrap('container-engine-trixie-2', ['--include', PACKAGES.join(), 'trixie'], say)
}

/** A Debian in a folder of the cache; `args` are options of debootstrap and the release. */
export async function bootstrap (name: string, args: readonly string[], say: Say): Promise<string> {
  return await installOnce(name, async folder => {
    await findOrInstall(async () => await works('debootstrap', ['--version']) || undefined, {
      packages: ['debootstrap'],
      advice: 'Without a container engine, root on Debian can make one with debootstrap. ' +
        'Install Docker with Compose, or debootstrap.',
      say,
    })
    say(`installing ${name} with debootstrap (about a minute, once)`)
    await runProgram(['debootstrap', '--variant=minbase', ...args, folder])
      .catch((cause: unknown) => {
        throw new Error('debootstrap cannot install Debian from its mirror here', { cause })
      })
  })
}

async function requireNamespaces (): Promise<void> {
  const missing = 'no container engine answers that has the official images or can pull them'
  if (process.getuid?.() !== 0) throw new Error(`${missing}, and only root can start one`)
  await run('unshare', ['--mount', '--pid', '--net', '--fork', 'true']).catch((cause: unknown) => {
    throw new Error(`${missing}, and namespaces are not allowed here`, { cause })
  })
}

/** Runs a program in the checkout; the output, or an Error with it. */
export async function runProgram (
  [program = '', ...args]: readonly string[], env: NodeJS.ProcessEnv = process.env
): Promise<string> {
  try {
    const options = { env, cwd: root, maxBuffer: MAX_OUTPUT_BYTES }
    return (await run(program, args, options)).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string, stderr?: string }
    throw new Error(`${[program, ...args].join(' ')}\n${stdout}${stderr}`, { cause: error })
  }
}

const lastLineOf = (file: string): string =>
  readFileSync(file, 'utf8').trim().split('\n').at(-1) ?? ''
