import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { selfSigned } from '../../deploy/local/certificate.ts'
import { STAGES } from '../../services/topology.ts'
import { eventually } from '../support/eventually.ts'
import { blocksOf } from '../support/guides/guide.ts'
import { root } from '../support/sources.ts'
import { startCluster, type Cluster } from './cluster.ts'
import { faultsIn, type Manifest } from './faults.ts'

const CHART = 'deploy/helm/verification-jobs'
const PAGE = 'deploy/docs/deployment.md'
const IMAGE = 'registry.example.com/verification-jobs:0.1.0'
const RESTRICTED = 'pod-security.kubernetes.io/enforce=restricted'
const PROVISION = 'vj-verification-jobs-provision'
/** The keys of the secret that the values for production name. */
const KEYS = ['RESULTS_ROOT_KEYS', 'WEBHOOKS_ROOT_KEYS', 'PARTNERS_ROOT_KEYS', 'CACHE_SECRETS',
  'MESSAGE_KEYS', 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'REDIS_CACHE_URL',
  'REDIS_CACHE_URL_INGEST', 'CLICKHOUSE_URL',
  ...[...STAGES, 'admin'].map(user => `KAFKA_PASSWORD_${user.toUpperCase()}`),
]
const KINDS = ['pods', 'secrets', 'configmaps', 'serviceaccounts', 'services', 'endpointslices',
  'deployments', 'persistentvolumeclaims', 'poddisruptionbudgets', 'networkpolicies', 'ingresses',
  'scaledobjects', 'podmonitors', 'prometheusrules']

let cluster: Cluster
beforeAll(async () => { cluster = await startCluster() })
afterAll(async () => { await cluster?.stop() })

/** Commands that begin with a word, of the first block of the guide that begins with another. */
const documented = (word: string, block: string): readonly string[] =>
  (blocksOf(PAGE, readFileSync(join(root, PAGE), 'utf8'))
    .find(({ content }) => content.startsWith(block))?.content ?? '')
    .split('\n').filter(line => line.startsWith(word))

async function runDocumented (word: string, more = ''): Promise<void> {
  const lines = documented(word, word.startsWith('helm -n') ? 'helm' : 'kubectl create namespace')
  expect(lines).not.toEqual([])
  for (const line of lines) await cluster.shell(line + more)
}

/** Writes the operator's own values, which the guide puts beside those for production. */
const writeValues = (values: object) =>
  writeFileSync(join(cluster.folder, 'my-values.yaml'), JSON.stringify(values))

async function objects (namespace = 'jobs'): Promise<readonly Manifest[]> {
  const { items } = await cluster.get<{ readonly items: readonly Manifest[] }>(
    '-n', namespace, KINDS.join())
  return items
}

const ofKind = async (kind: string) => (await objects()).filter(object => object.kind === kind)

/** The names of everything in a namespace, and of everything outside of any. */
async function everything (namespace: string): Promise<readonly string[]> {
  const types = async (isNamespaced: boolean) => (await cluster.shell(
    `kubectl api-resources --verbs=list --namespaced=${isNamespaced} -o name`)).trim().split('\n')
    .filter(type => !type.startsWith('events')).join()
  const names = async (words: string) => (await cluster.shell(
    `kubectl get -o name --ignore-not-found ${words}`)).trim().split('\n')
  return [
    ...await names(`-n ${namespace} ${await types(true)}`), ...await names(await types(false)),
  ].toSorted()
}

/** What Helm did since a number of requests, and the ends of jobs. */
const changesSince = (from: number): readonly string[] => cluster.audit('jobs').slice(from)
  .flatMap(({ verb, userAgent, objectRef, responseObject }) => {
    const { resource, subresource, name = '' } = objectRef
    const { conditions = [] } = (responseObject as Manifest | undefined)?.status ?? {}
    if (resource === 'jobs' && subresource === 'status' &&
      conditions.some(({ type }) => type === 'Complete')) return [`completed ${name}`]
    const isOfRelease = userAgent.startsWith('Helm/') && !name.startsWith('sh.helm.release.')
    return isOfRelease ? [`${verb} ${resource} ${name}`] : []
  })

/** The pods that jobs made, as they were admitted. */
const podsOfJobs = (): readonly Manifest[] => cluster.audit('jobs')
  .filter(({ verb, objectRef: { resource, subresource }, responseStatus: { code } }) =>
    verb === 'create' && resource === 'pods' && subresource === undefined && code === 201)
  .map(({ responseObject }) => ({ ...responseObject as Manifest, kind: 'Pod' }))
  .filter(({ metadata }) => metadata.name.startsWith(PROVISION))

function expectProvisionedFirst (from: number): void {
  const changes = changesSince(from)
  const firstOthers = changes.findIndex(change => !change.endsWith(PROVISION))
  expect(firstOthers).toBeGreaterThan(0)
  const before = changes.slice(0, firstOthers)
  expect(before.filter(change => /^(create|completed)/.test(change))).toEqual([
    `create networkpolicies ${PROVISION}`, `create jobs ${PROVISION}`, `completed ${PROVISION}`,
  ])
  const workloads = changes.filter(change => /^(create|patch) deployments/.test(change))
  expect(workloads.length).toBeGreaterThan(0)
}

const settingOf = ({ spec }: Manifest, setting: string) =>
  spec?.containers?.[0]?.env?.find(({ name }) => name === setting)?.value

/** Expects this level in all pods that are left once those of another revision have ended. */
const expectLogLevel = (level: string) => eventually(async () => {
  const levels = (await ofKind('Pod')).map(pod => settingOf(pod, 'LOG_LEVEL'))
  expect(new Set(levels)).toEqual(new Set([level]))
})

describe('the chart on an API server', () => {
  let before: readonly string[]

  it('is installed by the commands of the guide', async () => {
    const { cert, key } = selfSigned('example.com')
    for (const name of ['api', 'workspace', 'ca']) {
      writeFileSync(join(cluster.folder, `${name}.crt`), cert)
      writeFileSync(join(cluster.folder, `${name}.key`), key)
    }
    writeFileSync(join(cluster.folder, 'production.env'),
      KEYS.map(name => `${name}=value-of-${name}\n`).join(''))
    writeValues({ config: { LOG_LEVEL: 'info' } })
    await runDocumented('kubectl')
    before = await everything('jobs')
    await runDocumented('helm upgrade --install')
    await expectLogLevel('info')
  })

  it('is in a namespace that admits restricted pods only', async () => {
    await expect(cluster.shell('kubectl -n jobs run open --image=example.com/open'))
      .rejects.toThrow('violates PodSecurity "restricted')
  })

  it('provisions before anything else of the release exists', () => {
    expectProvisionedFirst(0)
  })

  it('runs every stage and the page, of one image, by programs that exist', async () => {
    const pods = [...await ofKind('Pod'), ...podsOfJobs()]
    const stages = pods.map(({ metadata: { labels } }) => labels?.['verification-jobs/stage'])
    expect(new Set(stages)).toEqual(new Set([...STAGES, 'page', 'provision']))
    const containers = pods.flatMap(({ spec }) => spec?.containers ?? [])
    expect(new Set(containers.map(({ image }) => image))).toEqual(new Set([IMAGE]))
    const programs = containers.flatMap(({ args }) => args)
    expect(programs.filter(program => !existsSync(join(root, program)))).toEqual([])
    const deployments = await ofKind('Deployment')
    expect(deployments.filter(({ status }) => status?.availableReplicas !== 1)).toEqual([])
  })

  it('names only objects, keys and ports that exist', async () => {
    const all = [...await objects(), ...podsOfJobs()]
    await eventually(async () =>
      expect(faultsIn([...await objects(), ...podsOfJobs()])).toEqual([]))
    // What it looks for is missed where it is not there.
    for (const kind of ['Secret', 'ServiceAccount', 'Service', 'EndpointSlice', 'Deployment']) {
      expect(faultsIn(all.filter(object => object.kind !== kind))).not.toEqual([])
    }
  })

  it('replaces what changed, and keeps the number of instances that was scaled', async () => {
    const from = cluster.audit('jobs').length
    const scaled = 'vj-verification-jobs-normalize-bulk'
    await cluster.shell(`kubectl -n jobs scale deployment ${scaled} --replicas=3`)
    writeValues({
      config: { LOG_LEVEL: 'debug' }, stages: { 'verify-email': { maxReplicas: 7 } },
    })
    await runDocumented('helm upgrade --install')
    expectProvisionedFirst(from)
    await expectLogLevel('debug')
    const named = async (kind: string, name: string) =>
      (await ofKind(kind)).find(({ metadata }) => metadata.name === name)
    expect((await named('Deployment', scaled))?.spec?.replicas).toBe(3)
    expect((await named('ScaledObject', 'vj-verification-jobs-verify-email'))?.spec)
      .toMatchObject({ minReplicaCount: 2, maxReplicaCount: 7 })
    // No deployment was without an instance meanwhile.
    const available = cluster.audit('jobs').slice(from)
      .filter(({ objectRef: { resource, subresource } }) =>
        resource === 'deployments' && subresource === 'status')
      .map(({ responseObject }) => (responseObject as Manifest).status?.availableReplicas)
    expect(available.length).toBeGreaterThan(0)
    expect(available.filter(number => number === undefined || number < 1)).toEqual([])
  })

  it('changes nothing while provisioning does not end, and goes on once it can', async () => {
    await cluster.shell('kubectl cordon -l kubernetes.io/os=linux')
    writeValues({ config: { LOG_LEVEL: 'warn' } })
    await expect(runDocumented('helm upgrade --install', ' --timeout 5s'))
      .rejects.toThrow('pre-upgrade hooks failed')
    await expectLogLevel('debug')
    await cluster.shell('kubectl uncordon -l kubernetes.io/os=linux')
    await runDocumented('helm upgrade --install')
    await expectLogLevel('warn')
  })

  it('is rolled back to its first revision', async () => {
    const from = cluster.audit('jobs').length
    await runDocumented('helm -n jobs rollback')
    expectProvisionedFirst(from)
    await expectLogLevel('info')
    expect(faultsIn([...await objects(), ...podsOfJobs()])).toEqual([])
  })

  it('leaves no object behind when it is uninstalled', async () => {
    await runDocumented('helm -n jobs uninstall')
    await eventually(async () => expect(await everything('jobs')).toEqual(before))
  })

  it('leaves none of a secret of its own either', async () => {
    await cluster.shell('kubectl create namespace trial')
    await cluster.shell(`kubectl label namespace trial ${RESTRICTED}`)
    const own = await everything('trial')
    writeValues({
      config: { TRUSTED_PROXIES: '10.244.0.0/16' },
      secrets: {
        existingSecret: '', create: true, values: Object.fromEntries(KEYS.map(key => [key, key])),
      },
    })
    for (const level of ['info', 'debug']) {
      await cluster.shell(`helm upgrade --install vj ${CHART} -n trial -f my-values.yaml ` +
        `--set config.LOG_LEVEL=${level} --wait`)
      await eventually(async () => expect(faultsIn(await objects('trial'))).toEqual([]))
    }
    await cluster.shell('helm -n trial uninstall vj --wait')
    await eventually(async () => expect(await everything('trial')).toEqual(own))
  })

  it.each(globSync(`${CHART}/values-*.yaml`, { cwd: root }))(
    'renders what the API server takes without a warning, with %s', async file => {
      const template = `helm template vj ${CHART} -n jobs -f ${file}`
      const output = await cluster.shell(
        `${template} | kubectl -n jobs apply --server-side --dry-run=server -f - 2>&1`)
      const lines = output.trim().split('\n')
      expect(lines.length).toBeGreaterThan(30)
      const applied = ' serverside-applied (server dry run)'
      expect(lines.filter(line => !line.endsWith(applied))).toEqual([])
    })
})
