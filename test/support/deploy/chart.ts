import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installHelm, installValidator, type Ran, runTool } from './tools.ts'
import { root } from '../sources.ts'
import { yamlOf } from './yaml.ts'

const chart = join(root, 'deploy/helm/verification-jobs')
/** How the release `vj` begins the names of its objects. */
export const RELEASE = 'vj-verification-jobs'
/** The one value without which nothing is rendered. */
export const minimal = ['--set', 'config.TRUSTED_PROXIES=10.244.0.0/16']
const files = (...names: readonly string[]) =>
  names.flatMap(name => ['--values', join(chart, `values-${name}.yaml`)])
export const production = files('production')
/** Turns on what is off by default, so that the chart makes pods of every program. */
export const everyProgram = ['--set', 'backup.enabled=true']
/** What is said to be passed for each place, by the name of the file that is for it alone. */
export const PLACES = {
  'aws-msk-scram': files('production', 'aws-msk-scram'),
  'aws-msk-iam': files('production', 'aws-msk-scram', 'aws-msk-iam'),
  'confluent-cloud': files('production', 'confluent-cloud'),
  aiven: files('production', 'aiven'),
  google: files('production', 'google'),
  laptop: files('laptop'),
} as const

/** A secret of its own, and all that can be left out. */
export const ownSecret = [
  ...minimal,
  '--set', 'secrets.create=true', '--set', 'secrets.existingSecret=',
  ...['RESULTS_ROOT_KEYS', 'WEBHOOKS_ROOT_KEYS', 'PARTNERS_ROOT_KEYS', 'CACHE_SECRETS',
    'MESSAGE_KEYS', 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL',
    'REDIS_CACHE_URL', 'REDIS_CACHE_URL_INGEST', 'CLICKHOUSE_URL',
  ].flatMap(key => ['--set', `secrets.values.${key}=secret`]),
  '--set', 'keda.authenticationRef.name=prometheus', '--set', 'defaults.podAnnotations.a=b',
  '--set', 'imagePullSecrets[0].name=registry',
  '--set', 'config.OTEL_EXPORTER_OTLP_ENDPOINT=http://collector.observability:4318',
  '--set', 'config.OTEL_TRACES_SAMPLER=parentbased_traceidratio',
  '--set', 'config.OTEL_TRACES_SAMPLER_ARG=0.1',
  '--set', 'prometheusRule.labels.release=prometheus',
]

/** Arguments of Helm that set a value. */
export const json = (name: string, value: unknown) =>
  ['--set-json', `${name}=${JSON.stringify(value)}`]
const byName = (port: number, ...fqdns: readonly string[]) => ({ ports: [port], fqdns })
/** Secrets, names and routes of others. */
export const rented = [
  ...minimal,
  ...json('secrets.externalSecret', { storeRef: { name: 'vault' }, key: 'prod/jobs' }),
  ...json('gateway', {
    enabled: true,
    parentRefs: [{ name: 'public', namespace: 'gateways', sectionName: 'https' }],
    hosts: { ingest: 'api.example.com', page: 'workspace.example.com' },
    annotations: { a: 'b' },
  }),
  ...json('network', {
    ipv6: true,
    cilium: { enabled: true },
    stores: {
      kafka: byName(9092, 'pkc-1.eu-central-1.aws.confluent.cloud', '*.confluent.cloud'),
      clickhouse: byName(8443, 'x.eu-central-1.aws.clickhouse.cloud'),
    },
    kafkaSignIn: [byName(443, 'id.example.com')],
    outside: { verify: { ports: [{ port: 443 }], fqdns: ['api.vendor.example.com'] } },
  }),
]

/** The oldest version the chart is for; validated against its schemas. */
const KUBERNETES = '1.30'

type EnvVariable = {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: {
    readonly secretKeyRef?: {
      readonly name: string, readonly key: string, readonly optional?: boolean
    }
  }
}

type Container = {
  readonly image: string
  readonly args: readonly string[]
  readonly env: readonly EnvVariable[]
  readonly ports?: readonly { readonly name: string, readonly containerPort: number }[]
  readonly volumeMounts: readonly { readonly name: string, readonly mountPath: string }[]
}

type PodTemplate = {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> }
  readonly spec: {
    readonly containers: readonly [Container]
    readonly volumes: unknown
    readonly serviceAccountName: string
  }
}

/** The fields that tests read; schemas check the others. */
export type Manifest = {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly labels: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly spec: {
    readonly template: PodTemplate
    readonly jobTemplate?: { readonly spec: { readonly template: PodTemplate } }
    readonly scaleTargetRef: { readonly name: string }
    readonly maxReplicaCount: number
    readonly triggers: readonly {
      readonly type: string
      readonly metadata: { readonly query: string, readonly threshold: string }
    }[]
    readonly podSelector: { readonly matchLabels: Readonly<Record<string, string>> }
    readonly policyTypes: readonly string[]
    readonly egress?: readonly { readonly to: readonly unknown[], readonly ports: unknown }[]
    readonly ingress?: readonly { readonly from: readonly unknown[], readonly ports: unknown }[]
    readonly groups: readonly RuleGroup[]
  }
  readonly data?: Readonly<Record<string, string>>
}

export type Rule = {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly for?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}
export type RuleGroup = { readonly name: string, readonly rules: readonly Rule[] }

const ignore = () => {}

/** Helm's own judgement, or what it renders, for the release `vj` in the namespace `jobs`. */
export async function helm (
  command: 'lint' | 'template', args: readonly string[] = []
): Promise<Ran> {
  const program = await installHelm(ignore)
  const name = command === 'template' ? ['vj', chart, '--namespace', 'jobs'] : [chart, '--strict']
  return await runTool(program, [command, ...name, '--kube-version', `${KUBERNETES}.0`, ...args])
}

/** Everything that the chart renders with these arguments. */
export async function render (args: readonly string[] = minimal): Promise<readonly Manifest[]> {
  const { code, output } = await helm('template', args)
  if (code !== 0) throw new Error(output)
  return yamlOf(output).filter(found => found !== null) as Manifest[]
}

/** Whether a manifest runs a program of the image. */
export const isProgram = ({ kind }: Manifest): boolean =>
  ['Deployment', 'Job', 'CronJob', 'Pod'].includes(kind)

/** The pod that a manifest makes, or is. */
export function podOf ({ metadata, spec }: Manifest): PodTemplate {
  const { template } = spec.jobTemplate?.spec ?? spec
  return template ?? { metadata, spec: spec as unknown as PodTemplate['spec'] }
}

/** The container of that pod. */
export const containerOf = (manifest: Manifest): Container => podOf(manifest).spec.containers[0]

/** The variables of that container: their values, or the keys of the secret that has them. */
export const envOf = (manifest: Manifest): Readonly<Record<string, string>> =>
  Object.fromEntries(containerOf(manifest).env.map(({ name, value, valueFrom }) =>
    [name, value ?? valueFrom?.secretKeyRef?.key ?? '']))

/** An object of the release, by the end of its name. */
export const named = (
  manifests: readonly Manifest[], kind: string, name: string
): Manifest | undefined => manifests.find(({ kind: of, metadata }) =>
  of === kind && metadata.name === `${RELEASE}-${name}`)

/** Whether Kubernetes itself has the kind of a manifest. */
export const isOfKubernetes = ({ apiVersion }: Manifest): boolean =>
  ['v1', 'apps/v1', 'batch/v1', 'networking.k8s.io/v1', 'policy/v1'].includes(apiVersion)

/** The violations of Kubernetes' own schemas in manifests; unknown fields are faults too. */
export async function faultsOf (manifests: readonly Manifest[]): Promise<readonly string[]> {
  const text = manifests.map(manifest => `${JSON.stringify(manifest)}\n---\n`).join('')
  const { code, output } = await inFile(text, async file =>
    runTool(await installValidator(ignore),
      ['-m', 'kubernetes_validate', '--strict', '--quiet', '-k', KUBERNETES, file]))
  const lines = output.split('\n').filter(line => line.trim() !== '')
  return code === 0 && lines.length === 0 ? [] : [...lines, `exit code ${code}`]
}

async function inFile<T> (text: string, work: (file: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'verification-jobs-chart-'))
  try {
    const file = join(folder, 'text.yaml')
    writeFileSync(file, text)
    return await work(file)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
