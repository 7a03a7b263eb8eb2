import { execFile } from 'node:child_process'
import { copyFileSync, readdirSync } from 'node:fs'
import { promisify } from 'node:util'
import { installOnce } from '../../../deploy/local/install.ts'
import type { Say } from '../../../deploy/local/parts.ts'
import { findGo } from './system-tools.ts'

const run = promisify(execFile)
const BUILD_TIMEOUT_MS = 1_200_000
const MAX_OUTPUT_BYTES = 64 * 1_024 * 1_024

/** What deployment files are checked with; each version is a decision, so it is pinned here. */
const HELM = 'helm.sh/helm/v3/cmd/helm@v3.21.4'
/** The last one that can be built by its name alone. */
const COMPOSE = 'github.com/docker/compose/v5/cmd@v5.0.2'
const ACTIONLINT = 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.12'
const KUBERNETES_VALIDATE = 'kubernetes-validate==1.37.0'
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

/** The program of Helm; built from the Go module proxy when it is missing. */
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

/** A Python that has the module `kubernetes_validate`. */
export async function installValidator (say: Say): Promise<string> {
  const home = await installOnce(nameOf(`venv ${KUBERNETES_VALIDATE}`), async to => {
    say(`installing ${KUBERNETES_VALIDATE} with pip (once)`)
    await run('python3', ['-c', 'import ensurepip, venv']).catch((cause: unknown) => {
      throw new Error('Python 3 with venv is needed to check manifests ' +
        '(for example: sudo apt-get install python3-venv).', { cause })
    })
    await run('python3', ['-m', 'venv', to])
    await run(`${to}/bin/python3`, ['-m', 'pip', 'install', '--quiet', KUBERNETES_VALIDATE])
  })
  // The programs in its folder `bin` name the place where they were made, Python itself does not.
  return `${home}/bin/python3`
}

const nameOf = (what: string) => what.replace(/[^\w.-]+/g, '-')

async function goProgram (what: string, say: Say): Promise<string> {
  return await installOnce(nameOf(what), async to => {
    const go = await requireGo()
    say(`building ${what} with Go (some minutes, once)`)
    const env = { ...process.env, GOBIN: to, GOFLAGS: '' }
    await run(go, ['install', what], { env, timeout: BUILD_TIMEOUT_MS })
  })
}

/** The program of Go, wherever it is. */
export async function requireGo (): Promise<string> {
  // From 1.21 on Go fetches a newer self where a program asks for it.
  const go = await findGo(21)
  if (go !== undefined) return go
  throw new Error('Go 1.21 or newer is needed to build Helm and compose: see https://go.dev/dl')
}
