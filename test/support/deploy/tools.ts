import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { promisify } from 'node:util'
import { installOnce, works } from '../../../deploy/local/install.ts'
import type { Say } from '../../../deploy/local/parts.ts'

const run = promisify(execFile)
const BUILD_TIMEOUT_MS = 1_200_000
const PIP_TIMEOUT_MS = 150_000
const MAX_OUTPUT_BYTES = 64 * 1_024 * 1_024

/** What deployment files are checked with; each version is a decision, so it is pinned here. */
const HELM = 'helm.sh/helm/v3/cmd/helm@v3.21.4'
/** The last one that can be built by its name alone. */
const COMPOSE = 'github.com/docker/compose/v5/cmd@v5.0.2'
const ACTIONLINT = 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.12'
const KUBERNETES_VALIDATE = 'kubernetes-validate==1.37.0'
/** The newest version that a Go of 1.17 builds, so that what systems bring along is enough. */
const TOXIPROXY = 'v2.5.0'
const TOXIPROXY_GO = 17
/** From 1.21 on Go fetches a newer self where a program asks for it. */
const USUAL_GO = 21
/** Modules that bring the definitions of what Kubernetes itself does not know. */
const DEFINITIONS = [
  { module: 'github.com/kedacore/keda/v2@v2.20.2', folder: 'config/crd/bases' },
  {
    module: 'github.com/prometheus-operator/prometheus-operator@v0.85.0',
    folder: 'example/prometheus-operator-crd',
  },
  {
    module: 'github.com/external-secrets/external-secrets@v1.3.2', folder: 'config/crds/bases',
  },
  { module: 'sigs.k8s.io/gateway-api@v1.5.1', folder: 'config/crd/standard' },
  {
    module: 'github.com/cilium/cilium@v1.20.2',
    folder: 'pkg/k8s/apis/cilium.io/client/crds/v2',
  },
] as const

export type Ran = { readonly code: number, readonly output: string }

/** Runs a tool to its end; a failure is a value, as many tests expect one. */
export async function runTool (
  program: string, args: readonly string[], env: Readonly<Record<string, string | undefined>> = {}
): Promise<Ran> {
  try {
    const { stdout } = await run(program, [...args], {
      maxBuffer: MAX_OUTPUT_BYTES, env: { ...process.env, ...env },
    })
    return { code: 0, output: stdout }
  } catch (error) {
    const { code, stdout = '', stderr = '' } =
      error as { readonly code?: unknown, readonly stdout?: string, readonly stderr?: string }
    if (typeof code !== 'number') throw error
    return { code, output: `${stdout}${stderr}` }
  }
}

type Packages = {
  readonly packages: readonly string[]
  /** What is missing without them, and what to do where they can't be installed. */
  readonly advice: string
  readonly say: Say
}

/**
 * What `find` finds; installs packages of the system if that is nothing, which only root can.
 * Throws with the advice where it finds nothing then either.
 */
export async function findOrInstall<T> (
  find: () => Promise<T | undefined>, { packages, advice, say }: Packages
): Promise<T> {
  const there = await find()
  if (there !== undefined) return there
  if (process.getuid?.() !== 0) throw new Error(advice)
  say(`installing ${packages.join(' and ')} with apt-get (once)`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const install = () =>
    run('apt-get', ['install', '-y', '--no-install-recommends', ...packages], { env })
  await install()
    .catch(async () => {
      await run('apt-get', ['update'], { env })
      await install()
    })
    .catch((error: Error) => { throw new Error(advice, { cause: error }) })
  const installed = await find()
  if (installed === undefined) throw new Error(advice)
  return installed
}

/** The folder of `installOnce`, for what must be in a certain place in it. */
export function cacheFolder (): string {
  const { XDG_CACHE_HOME = '' } = process.env
  return `${XDG_CACHE_HOME === '' ? `${homedir()}/.cache` : XDG_CACHE_HOME}/verification-jobs`
}

/** Where Go's own installer puts it, which not every shell has in its path. */
const GO_PLACES = ['go', '/usr/local/go/bin/go', '/usr/lib/go/bin/go']

/** A Go of 1.`oldestMinor` or newer; undefined where there is none. */
export async function findGo (oldestMinor: number): Promise<string | undefined> {
  for (const place of GO_PLACES) {
    const text = await run(place, ['env', 'GOVERSION']).then(({ stdout }) => stdout, () => '')
    const [, major = 0, minor = 0] = /go(\d+)\.(\d+)/.exec(text) ?? []
    if (Number(major) > 1 || Number(minor) >= oldestMinor) return place
  }
  return undefined
}

/** The program of Go, wherever it is. */
export async function requireGo (): Promise<string> {
  const go = await findGo(USUAL_GO)
  if (go !== undefined) return go
  throw new Error('Go 1.21 or newer is needed to build Helm and compose: see https://go.dev/dl')
}

const nameOf = (what: string) => what.replace(/[^\w.-]+/g, '-')

/** The folder of a program that is built from the Go module proxy when it is missing. */
const goProgram = (what: string, say: Say) => installOnce(nameOf(what), async to => {
  const go = await requireGo()
  say(`building ${what} with Go (some minutes, once)`)
  const env = { ...process.env, GOBIN: to, GOFLAGS: '' }
  await run(go, ['install', what], { env, timeout: BUILD_TIMEOUT_MS })
})

/** The program of Helm. */
export async function installHelm (say: Say): Promise<string> {
  return `${await goProgram(HELM, say)}/helm`
}

/** Docker's compose as a program of its own; what it checks needs no container engine. */
export async function installCompose (say: Say): Promise<string> {
  return `${await goProgram(COMPOSE, say)}/cmd`
}

/** The linter of workflows. */
export async function installActionlint (say: Say): Promise<string> {
  return `${await goProgram(ACTIONLINT, say)}/actionlint`
}

/** The program of toxiproxy; installs the system's Go if there is none that builds it. */
export async function installToxiproxy (say: Say): Promise<string> {
  const home = await installOnce(`toxiproxy-${TOXIPROXY}`, async to => {
    const go = await findOrInstall(() => findGo(TOXIPROXY_GO), {
      packages: ['golang-go'],
      advice: 'The faults of slow and cut links need toxiproxy, which is built with Go 1.17 ' +
        'or newer. Install Go (for example: sudo apt-get install golang-go).',
      say,
    })
    say(`building toxiproxy ${TOXIPROXY} with Go (10 MB of sources, once)`)
    const env = { ...process.env, GOBIN: to, GOTOOLCHAIN: 'local', GOFLAGS: '' }
    await run(go, ['install', `github.com/Shopify/toxiproxy/v2/cmd/server@${TOXIPROXY}`],
      { env, timeout: BUILD_TIMEOUT_MS })
  })
  return `${home}/server`
}

/** Newer ones could not be fetched whole. */
const COLLECTOR = 'v0.160.0'
/** What is stable of the same release has a version of its own. */
const COLLECTOR_STABLE = 'v1.66.0'
const COLLECTOR_MODULES = 'go.opentelemetry.io/collector'

/** The program of the OpenTelemetry Collector, built by the builder of the project. */
export async function installCollector (say: Say): Promise<string> {
  const home = await installOnce(`opentelemetry-collector-${COLLECTOR}`, async to => {
    const go = await requireGo()
    say('building the OpenTelemetry Collector with Go (some minutes, once)')
    const folder = mkdtempSync(`${tmpdir()}/verification-jobs-collector-`)
    const options = {
      env: { ...process.env, GOBIN: to, GOFLAGS: '' }, timeout: BUILD_TIMEOUT_MS, cwd: folder,
    }
    const module = (path: string, version = COLLECTOR) =>
      ({ gomod: `${COLLECTOR_MODULES}/${path} ${version}` })
    try {
      await run(go, ['install', `${COLLECTOR_MODULES}/cmd/builder@${COLLECTOR}`], options)
      // It takes OTLP and passes it on. JSON is YAML as well.
      writeFileSync(`${folder}/builder.yaml`, JSON.stringify({
        dist: { name: 'collector', output_path: to, go },
        receivers: [module('receiver/otlpreceiver')],
        exporters: [module('exporter/otlphttpexporter')],
        providers: ['env', 'file'].map(name =>
          module(`confmap/provider/${name}provider`, COLLECTOR_STABLE)),
      }))
      await run(`${to}/builder`, ['--config', 'builder.yaml'], options)
      rmSync(`${to}/builder`)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
  return `${home}/collector`
}

/** A folder with the definitions of resources that others add to Kubernetes, a file each. */
export async function installDefinitions (say: Say): Promise<string> {
  return await installOnce(nameOf(DEFINITIONS.map(({ module }) => module).join(' ')), async to => {
    say('downloading definitions of KEDA, Prometheus Operator, Cilium and others (once)')
    const go = await requireGo()
    for (const { module, folder } of DEFINITIONS) {
      // Outside of any module, so that no package is resolved beside it.
      const { stdout } = await run(go, ['mod', 'download', '-json', module], { cwd: to })
      const from = `${(JSON.parse(stdout) as { readonly Dir: string }).Dir}/${folder}`
      const files = readdirSync(from).filter(file => file.endsWith('.yaml'))
      for (const file of files) copyFileSync(`${from}/${file}`, `${to}/${file}`)
    }
  })
}

/** Packages of Python in an environment of their own, by the arguments of `pip install`. */
async function installWithPip (to: string, ...packages: readonly string[]): Promise<void> {
  await run('python3', ['-m', 'venv', to])
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check']
  await run(`${to}/bin/python`, [...pip, ...packages], { timeout: PIP_TIMEOUT_MS })
}

/** The programs in its folder `bin` name the place where they were made, Python itself does not. */
const pythonIn = (home: string) => `${home}/bin/python`

/** A Python that has the module `kubernetes_validate`. */
export async function installValidator (say: Say): Promise<string> {
  return pythonIn(await installOnce(nameOf(`venv ${KUBERNETES_VALIDATE}`), async to => {
    say(`installing ${KUBERNETES_VALIDATE} with pip (once)`)
    await run('python3', ['-c', 'import ensurepip, venv']).catch((cause: unknown) => {
      throw new Error('Python 3 with venv is needed to check manifests ' +
        '(for example: sudo apt-get install python3-venv).', { cause })
    })
    await installWithPip(to, KUBERNETES_VALIDATE)
  }))
}

const USABLE_PYTHON = 'import sys, venv, ensurepip; assert sys.version_info >= (3, 10); ' +
  'print(sys.base_prefix, sys.version)'

/**
 * Makes an environment of Python that holds the packages of `requirements.txt` in a folder, and
 * resolves with its Python; installs the system's if there is none that can make it. `purpose`
 * begins the error where that fails.
 */
export const pythonWith = (name: string, folder: string, purpose: string) => async (
  say: Say
): Promise<string> => {
  const find = () =>
    run('python3', ['-c', USABLE_PYTHON]).then(({ stdout }) => stdout.trim(), () => undefined)
  const python = await findOrInstall(find, {
    packages: ['python3', 'python3-venv'],
    advice: `${purpose} needs Python 3.10 or newer with venv. Install it (for example: sudo ` +
      'apt-get install python3 python3-venv).',
    say,
  })
  const requirements = `${folder}/requirements.txt`
  const text = readFileSync(requirements, 'utf8')
  const digest = createHash('sha256').update(`${python}\n${text}`).digest('hex')
  return pythonIn(await installOnce(`${name}-${digest.slice(0, 16)}`, async to => {
    say(`installing ${name} with pip (once)`)
    await installWithPip(to, '-r', requirements)
  }))
}

/** Makes sure that `prometheus` and `promtool` can be started, which one package brings. */
export async function installPrometheus (say: Say): Promise<void> {
  const find = async () => {
    const found = ['prometheus', 'promtool'].map(name => works(name, ['--version']))
    return (await Promise.all(found)).every(isThere => isThere) || undefined
  }
  await findOrInstall(find, {
    packages: ['prometheus'],
    advice: 'Rules and dashboards are tried with the real Prometheus. Install it (for ' +
      'example: sudo apt-get install prometheus).',
    say,
  })
}

/** The output of promtool; rejects with it when a check fails. */
export async function promtool (args: readonly string[], cwd: string): Promise<string> {
  await installPrometheus(console.log)
  return await run('promtool', [...args], { cwd }).then(({ stdout }) => stdout,
    (error: { readonly stdout: string, readonly stderr: string }) => {
      throw new Error(`promtool ${args.join(' ')}\n${error.stdout}${error.stderr}`)
    })
}
