import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  appendFileSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { selfSigned } from '../../deploy/local/certificate.ts'
import { installOnce } from '../../deploy/local/install.ts'
import type { Say } from '../../deploy/local/parts.ts'
import { freePort } from '../../deploy/local/ports.ts'
import { answersOk } from '../../deploy/local/process.ts'
import { supervise, type Supervised } from '../../deploy/local/supervise.ts'
import { installDefinitions, installHelm, requireGo, runTool } from '../support/deploy/tools.ts'
import type { OwnEngine } from '../containers/engine.ts'
import { nodePrograms, type Program } from '../pods/node.ts'
import { newFolder } from '../support/folder.ts'
import { root } from '../support/sources.ts'

const run = promisify(execFile)
const SOURCES = `${import.meta.dirname}/control-plane`
const BUILD_TIMEOUT_MS = 5_400_000
const GRACE_MS = 10_000
const VALID_FOR_MS = 86_400_000
const ZONES = ['a', 'b', 'c']
const TOKEN = 'administrator'

/**
 * A folder with etcd, the programs of Kubernetes, CoreDNS, and kwok with the stages by which it
 * plays nodes; built from the Go module proxy when it is missing.
 */
export async function installControlPlane (say: Say): Promise<string> {
  const digest = createHash('sha256')
  for (const name of ['go.mod', 'go.sum', 'coredns/main.go']) {
    digest.update(readFileSync(`${SOURCES}/${name}`))
  }
  return await installOnce(`control-plane-${digest.digest('hex').slice(0, 16)}`, async to => {
    const go = await requireGo()
    say('building Kubernetes with Go (a quarter of an hour, once)')
    const options = {
      cwd: SOURCES, env: { ...process.env, GOFLAGS: '-mod=readonly' }, timeout: BUILD_TIMEOUT_MS,
    }
    const [, version = '', minor = ''] = /k8s\.io\/kubernetes (v1\.(\d+)\.\d+)/
      .exec(readFileSync(`${SOURCES}/go.mod`, 'utf8')) ?? []
    // Without a version Helm takes it for Kubernetes 0.0, which no chart is for.
    const linked = { gitVersion: version, gitMajor: '1', gitMinor: minor }
    const flags = Object.entries(linked)
      .map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`)
    await run(go, ['build', '-ldflags', `-s -w ${flags.join(' ')}`, '-o', `${to}/`, 'tool',
      './coredns'], options)
    renameSync(`${to}/server`, `${to}/etcd`)
    const { stdout } = await run(go, ['list', '-m', '-f', '{{.Dir}}', 'sigs.k8s.io/kwok'], options)
    const stages = `${stdout.trim()}/kustomize/stage`
    for (const stage of ['node/fast/node-initialize', 'pod/fast/pod-ready',
      'pod/fast/pod-complete', 'pod/fast/pod-delete']) {
      appendFileSync(`${to}/stages.yaml`, `---\n${readFileSync(`${stages}/${stage}.yaml`, 'utf8')}`)
    }
  })
}

/** A request that changed something in a namespace, as the API server logs it. */
type AuditEvent = {
  readonly verb: string
  readonly userAgent: string
  readonly objectRef: {
    readonly resource: string
    readonly namespace: string
    readonly name?: string
    readonly subresource?: string
  }
  readonly responseStatus: { readonly code: number, readonly message?: string }
  readonly responseObject?: unknown
}

/** A Kubernetes of its own on 127.0.0.1. */
export type Cluster = {
  /** Where commands run: `deploy` is there as in the repository, other files are its own. */
  readonly folder: string
  /** Runs a command line with kubectl and helm as its administrator. */
  readonly shell: (command: string) => Promise<string>
  /** What kubectl prints as JSON. */
  readonly get: <T>(...words: readonly string[]) => Promise<T>
  /** All requests so far that changed something in a namespace, in their order. */
  readonly audit: (namespace: string) => readonly AuditEvent[]
  /** Forwards a port of 127.0.0.1 to HTTP by a command of kubectl; the address. */
  readonly forward: (command: string) => Promise<string>
  readonly stop: () => Promise<void>
}

/** Where containers of a cluster run: a container engine, and the port of its API server there. */
type Runtime = { readonly engine: OwnEngine, readonly port: number }

/**
 * Starts etcd, an API server with all of its admission plugins, the controllers and the scheduler,
 * with the definitions of the resources of others that the chart makes. With a runtime, all of it
 * and a node run in the namespaces of its engine; otherwise kwok plays a node in each of three
 * zones, and their containers.
 */
export async function startCluster (runtime?: Runtime): Promise<Cluster> {
  const programs = await installControlPlane(console.log)
  const helm = dirname(await installHelm(console.log))
  const apiServer = `https://127.0.0.1:${runtime?.port ?? await freePort()}`
  const etcd = `http://127.0.0.1:${await freePort()}`
  const peer = `http://127.0.0.1:${await freePort()}`
  const folder = newClusterFolder(runtime)
  writeSettings(folder, { apiServer, programs })
  const env = {
    PATH: `${programs}:${helm}:${process.env['PATH']}`,
    KUBECONFIG: join(folder, 'kubeconfig'),
    HOME: folder,
  }
  const shell = async (command: string) => {
    const { code, output } = await runTool('sh', ['-c', `cd ${folder} && ${command}`], env)
    if (code !== 0) throw new Error(`${command}: exit code ${code}\n${output}`)
    return output
  }
  const running: Supervised[] = []
  const stop = async () => {
    for (const program of running.toReversed()) await program.stop()
    await runtime?.engine.close()
    rmSync(folder, { recursive: true, force: true })
  }
  const start = async (
    name: string, [command = '', ...args]: readonly string[], ready: () => Promise<boolean>
  ) => {
    const spec = { name, command, args, env, cwd: folder, dataDir: folder, ready }
    const program = supervise({ ...spec, graceMs: GRACE_MS })
    running.push(program)
    await program.untilReady()
  }
  const startProgram = async ({ name, command, probe = 'true', args }: Program) => {
    const enter = runtime?.engine.enter(folder) ?? []
    await start(name, [...enter, command ?? `${programs}/${name}`, ...args],
      () => shell(probe).then(() => true, () => false))
  }
  try {
    for (const program of controlPlane(apiServer, etcd, peer)) await startProgram(program)
    if (runtime === undefined) {
      await applyDefinitions(shell)
      await startProgram(KWOK)
      await shell('kubectl apply -f nodes.yaml')
    } else {
      for (const program of nodePrograms(folder, programs)) await startProgram(program)
    }
    await shell('kubectl wait --for=condition=Ready node --all --timeout=60s')
  } catch (error) {
    await stop()
    throw error
  }
  return {
    folder,
    shell,
    get: async <T>(...words: readonly string[]) =>
      JSON.parse(await shell(`kubectl get -o json ${words.join(' ')}`)) as T,
    audit: namespace => readFileSync(join(folder, 'audit.log'), 'utf8').trimEnd().split('\n')
      .map(line => JSON.parse(line) as AuditEvent)
      .filter(({ objectRef }) => objectRef.namespace === namespace),
    forward: async command => {
      const port = await freePort()
      const address = `http://127.0.0.1:${port}`
      const words = command.replace(/ \d+:/, ` ${port}:`).split(' ')
      await start('forward', words, () =>
        answersOk(`${address}/openapi.json`, { 'x-forwarded-proto': 'https' }))
      return address
    },
    stop,
  }
}

/** A folder in which the commands of the guide find `deploy`. */
function newClusterFolder (runtime: Runtime | undefined): string {
  const folder = runtime === undefined
    ? newFolder('api-server-')
    : `${runtime.engine.folder}/cluster`
  if (runtime !== undefined) {
    // Of an earlier run that was killed.
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder)
  }
  symlinkSync(join(root, 'deploy'), join(folder, 'deploy'))
  return folder
}

/** Not only pods of jobs end, but each that is not started again, as that of a test of Helm. */
function writeStages (folder: string, programs: string): void {
  writeFileSync(join(folder, 'stages.yaml'), readFileSync(`${programs}/stages.yaml`, 'utf8')
    .replace('.metadata.ownerReferences.[].kind', '.spec.restartPolicy')
    .replace("- 'Job'", "- 'Never'"))
}

/** What other projects define, whose objects the chart makes. */
async function applyDefinitions (shell: Cluster['shell']): Promise<void> {
  const definitions = await installDefinitions(console.log)
  const files = readdirSync(definitions).filter(name => name !== 'kustomization.yaml')
  await shell(`kubectl apply --server-side -f ${files.map(name => join(definitions, name))}`)
  await shell('kubectl wait --for=condition=Established crd --all --timeout=60s')
}

type Sources = { readonly apiServer: string, readonly programs: string }

/** Writes what the programs of a control plane read from files. JSON is YAML as well. */
function writeSettings (folder: string, { apiServer: server, programs }: Sources): void {
  writeStages(folder, programs)
  const { cert, key } = selfSigned('kubernetes', VALID_FOR_MS)
  const files = {
    'server.crt': cert,
    'server.key': key,
    'tokens.csv': `${TOKEN},administrator,administrator,system:masters\n`,
    'audit.yaml': JSON.stringify({
      apiVersion: 'audit.k8s.io/v1',
      kind: 'Policy',
      omitStages: ['RequestReceived'],
      rules: [
        {
          level: 'None',
          resources: [
            { group: '', resources: ['events'] }, { group: 'events.k8s.io' },
            { group: 'coordination.k8s.io' },
          ],
        },
        { level: 'RequestResponse', verbs: ['create', 'update', 'patch', 'delete'] },
        { level: 'None' },
      ],
    }),
    kubeconfig: JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{
        name: 'test',
        cluster: {
          server,
          'certificate-authority-data': Buffer.from(cert).toString('base64'),
        },
      }],
      users: [{ name: 'administrator', user: { token: TOKEN } }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'administrator' } }],
      'current-context': 'test',
    }),
    'nodes.yaml': ZONES.map(zone => JSON.stringify({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: {
        name: `node-${zone}`,
        labels: {
          'kubernetes.io/hostname': `node-${zone}`,
          'kubernetes.io/os': 'linux',
          'topology.kubernetes.io/zone': `zone-${zone}`,
        },
      },
      status: {
        allocatable: { cpu: '8', memory: '32Gi', pods: '110' },
        capacity: { cpu: '8', memory: '32Gi', pods: '110' },
      },
    })).join('\n---\n'),
  }
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text, { mode: 0o600 })
  }
}

const KWOK: Program = {
  name: 'kwok',
  args: [
    '--kubeconfig', 'kubeconfig', '--config', 'stages.yaml', '--manage-all-nodes=true',
    '--node-ip', '127.0.0.1', '--cidr', '10.244.0.0/16',
  ],
}

/** The programs in the order in which they are started. */
function controlPlane (apiServer: string, etcd: string, peer: string): readonly Program[] {
  return [{
    name: 'etcd',
    args: [
      '--data-dir', 'etcd', '--unsafe-no-fsync', '--log-level', 'warn',
      '--listen-client-urls', etcd, '--advertise-client-urls', etcd,
      '--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer,
      '--initial-cluster', `default=${peer}`,
    ],
  }, {
    name: 'kube-apiserver',
    probe: 'kubectl get --raw /readyz',
    args: [
      '--etcd-servers', etcd, '--bind-address', '127.0.0.1',
      '--secure-port', new URL(apiServer).port,
      '--tls-cert-file', 'server.crt', '--tls-private-key-file', 'server.key',
      '--token-auth-file', 'tokens.csv', '--authorization-mode', 'Node,RBAC',
      '--service-cluster-ip-range', '10.96.0.0/16', '--endpoint-reconciler-type', 'none',
      '--kubelet-preferred-address-types', 'InternalIP',
      '--service-account-issuer', 'https://kubernetes.default.svc',
      '--service-account-key-file', 'server.crt',
      '--service-account-signing-key-file', 'server.key',
      '--audit-policy-file', 'audit.yaml', '--audit-log-path', 'audit.log',
      '--audit-log-mode', 'blocking', '--profiling=false',
    ],
  }, {
    name: 'kube-controller-manager',
    probe: 'kubectl -n default get serviceaccount default',
    args: [
      '--kubeconfig', 'kubeconfig', '--leader-elect=false', '--secure-port', '0',
      '--service-account-private-key-file', 'server.key', '--root-ca-file', 'server.crt',
      // kwok reports once that a node is ready.
      '--node-monitor-grace-period', '24h',
    ],
  }, {
    name: 'kube-scheduler',
    args: ['--kubeconfig', 'kubeconfig', '--leader-elect=false', '--secure-port', '0'],
  }]
}
