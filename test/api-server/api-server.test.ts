import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { selfSigned } from '../../deploy/local/certificate.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { ownSecret, production, PLACES, rented } from '../support/deploy/chart.ts'
import { eventually } from '../support/eventually.ts'
import { commandsUnder } from '../support/guides/guide.ts'
import { root } from '../support/sources.ts'
import { startCluster } from './cluster.ts'
import { STAGES } from '../../services/topology.ts'
import { faultsIn, type Manifest } from './faults.ts'

const CHART = 'deploy/helm/verification-jobs'
const PAGE = 'deploy/docs/deployment.md'
const IMAGE = 'registry.example.com/verification-jobs:0.1.0'
const PROVISION = 'vj-verification-jobs-provision'
const SMOKE = 'vj-verification-jobs-smoke'
/** The keys of the secret that the values for production name. */
const KEYS = ['RESULTS_ROOT_KEYS', 'WEBHOOKS_ROOT_KEYS', 'PARTNERS_ROOT_KEYS', 'CACHE_SECRETS',
  'MESSAGE_KEYS', 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'REDIS_CACHE_URL',
  'REDIS_CACHE_URL_INGEST', 'CLICKHOUSE_URL',
  ...[...STAGES, 'admin'].map(user => `KAFKA_PASSWORD_${user.toUpperCase()}`),
]
const KINDS = ['pods', 'secrets', 'configmaps', 'serviceaccounts', 'services', 'endpointslices',
  'deployments', 'persistentvolumeclaims', 'poddisruptionbudgets', 'networkpolicies', 'ingresses',
  'scaledobjects', 'podmonitors', 'prometheusrules']

const cluster = closeAfterAll(await startCluster())
await cluster.shell('kubectl create namespace trial')
await cluster.shell(['kubectl label namespace trial', ...['enforce', 'warn']
  .map(mode => `pod-security.kubernetes.io/${mode}=restricted`)].join(' '))

/** Commands of the first block of the guide to a kind of cluster that begins with a word. */
const documented = (begins: string, heading = 'Kubernetes') =>
  commandsUnder(heading, PAGE, begins)

const MAKE = 'kubectl create namespace'

/** Installs or upgrades the release with the operator's own values, as the guide says. */
async function upgrade (values: object, more = ''): Promise<void> {
  writeFileSync(join(cluster.folder, 'my-values.yaml'), JSON.stringify(values))
  await cluster.shell(`${documented(MAKE).at(-1)}${more}`)
}

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

/**
 * All objects of a namespace after its tasks ran, and those that are there only while Helm runs
 * `provision` and the test of the release, as the API server admitted them.
 */
async function objectsOfRelease (namespace: string): Promise<readonly Manifest[]> {
  const passing = cluster.audit(namespace)
    .filter(({ verb, objectRef: { subresource }, responseStatus: { code } }) =>
      verb === 'create' && subresource === undefined && code === 201)
    .map(({ responseObject }) => responseObject as Manifest)
    .filter(({ metadata }) => [PROVISION, SMOKE].some(name => metadata.name.startsWith(name)))
  return [...await objects(namespace), ...passing]
}

/** Runs what a schedule, an operator and `helm test` would start. */
async function runTasks (namespace: string): Promise<void> {
  for (const task of ['audit', 'admin']) {
    await cluster.shell(`kubectl -n ${namespace} create job ${task} ` +
      `--from=cronjob/vj-verification-jobs-${task}`)
    await cluster.shell(`kubectl -n ${namespace} wait --for=condition=Complete job/${task}`)
  }
  await cluster.shell(`helm -n ${namespace} test vj`)
}

function expectProvisionedFirst (from: number): void {
  const changes = changesSince(from)
  const firstOthers = changes.findIndex(change => !change.endsWith(PROVISION))
  expect(firstOthers).toBeGreaterThan(0)
  const before = changes.slice(0, firstOthers)
  expect(before.filter(change => /^(create|completed)/.test(change)).toSorted()).toEqual([
    `completed ${PROVISION}`, `create jobs ${PROVISION}`,
    `create networkpolicies ${PROVISION}`, `create serviceaccounts ${PROVISION}`,
  ])
  expect(before.indexOf(`create jobs ${PROVISION}`)).toBeGreaterThan(Math.max(
    ...['networkpolicies', 'serviceaccounts'].map(type =>
      before.indexOf(`create ${type} ${PROVISION}`))))
  const workloads = changes.filter(change => /^(create|patch) deployments/.test(change))
  expect(workloads.length).toBeGreaterThan(0)
}

const expectNoFaults = (namespace: string) => eventually(async () =>
  expect(faultsIn(await objectsOfRelease(namespace))).toEqual([]))

const settingOf = ({ spec }: Manifest, setting: string) =>
  spec?.containers?.[0]?.env?.find(({ name }) => name === setting)?.value

/** Expects this level in all pods that are left once those of another revision have ended. */
const expectLogLevel = (level: string) => eventually(async () => {
  const levels = (await ofKind('Pod')).filter(({ spec }) => spec?.restartPolicy === 'Always')
    .map(pod => settingOf(pod, 'LOG_LEVEL'))
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
    for (const command of documented(MAKE).slice(0, -1)) await cluster.shell(command)
    before = await everything('jobs')
    await upgrade({ config: { LOG_LEVEL: 'info' } })
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
    await runTasks('jobs')
    const pods = (await objectsOfRelease('jobs')).filter(({ kind }) => kind === 'Pod')
    const stages = pods.map(({ metadata: { labels } }) => labels?.['verification-jobs/stage'])
    expect(new Set(stages)).toEqual(new Set([
      ...STAGES, 'page', 'provision', 'audit', 'admin', 'smoke',
    ]))
    const containers = pods.flatMap(({ spec }) => spec?.containers ?? [])
    expect(new Set(containers.map(({ image }) => image))).toEqual(new Set([IMAGE]))
    const programs = containers.map(({ args: [program = ''] }) => program)
    expect(programs.filter(program => !existsSync(join(root, program)))).toEqual([])
    const deployments = await ofKind('Deployment')
    expect(deployments.filter(({ status }) => status?.availableReplicas !== 1)).toEqual([])
  })

  it('names only objects, keys and ports that exist', async () => {
    await expectNoFaults('jobs')
    const all = await objectsOfRelease('jobs')
    // What it looks for is missed where it is not there.
    for (const kind of ['Secret', 'ServiceAccount', 'Service', 'EndpointSlice', 'Deployment']) {
      expect(faultsIn(all.filter(object => object.kind !== kind))).not.toEqual([])
    }
  })

  it('replaces what changed, and keeps the number of instances that was scaled', async () => {
    const from = cluster.audit('jobs').length
    const scaled = 'vj-verification-jobs-normalize-bulk'
    await cluster.shell(`kubectl -n jobs scale deployment ${scaled} --replicas=3`)
    await upgrade({
      config: { LOG_LEVEL: 'debug' }, stages: { 'verify-email': { maxReplicas: 7 } },
    })
    expectProvisionedFirst(from)
    await expectLogLevel('debug')
    const named = async (kind: string, name: string) =>
      (await ofKind(kind)).find(({ metadata }) => metadata.name === name)
    expect((await named('Deployment', scaled))?.spec?.replicas).toBe(3)
    expect((await named('ScaledObject', 'vj-verification-jobs-verify-email'))?.spec)
      .toMatchObject({ minReplicaCount: 2, maxReplicaCount: 7 })
    // No deployment was without an instance meanwhile.
    const available = cluster.audit('jobs').slice(from)
      .filter(({ objectRef: { resource, subresource }, responseStatus: { code } }) =>
        resource === 'deployments' && subresource === 'status' && code === 200)
      .map(({ responseObject }) => (responseObject as Manifest).status?.availableReplicas)
    expect(available.length).toBeGreaterThan(0)
    expect(available.filter(number => number === undefined || number < 1)).toEqual([])
  })

  it('changes nothing while provisioning does not end, and goes on once it can', async () => {
    await cluster.shell('kubectl cordon -l kubernetes.io/os=linux')
    const values = { config: { LOG_LEVEL: 'warn' } }
    await expect(upgrade(values, ' --timeout 5s')).rejects.toThrow('pre-upgrade hooks failed')
    await expectLogLevel('debug')
    await cluster.shell('kubectl uncordon -l kubernetes.io/os=linux')
    await upgrade(values)
    await expectLogLevel('warn')
  })

  it('is rolled back to its first revision', async () => {
    const from = cluster.audit('jobs').length
    await cluster.shell(String(documented('helm -n jobs rollback').at(0)))
    expectProvisionedFirst(from)
    await expectLogLevel('info')
    await expectNoFaults('jobs')
  })

  it('leaves no object behind when it is uninstalled', async () => {
    await cluster.shell(String(documented('helm -n jobs rollback').at(1)))
    await eventually(async () => expect(await everything('jobs')).toEqual(before))
  })

  it('leaves none of a secret of its own either', async () => {
    const own = await everything('trial')
    writeFileSync(join(cluster.folder, 'trial.yaml'), JSON.stringify({
      config: { TRUSTED_PROXIES: '10.244.0.0/16' },
      secrets: {
        existingSecret: '', create: true, values: Object.fromEntries(KEYS.map(key => [key, key])),
      },
    }))
    for (const level of ['info', 'debug']) {
      await cluster.shell(`helm upgrade --install vj ${CHART} -n trial -f trial.yaml ` +
        `--set config.LOG_LEVEL=${level} --wait`)
    }
    await runTasks('trial')
    await expectNoFaults('trial')
    await cluster.shell('helm -n trial uninstall vj --wait')
    await eventually(async () => expect(await everything('trial')).toEqual(own))
  })

  it('runs on a laptop cluster by the commands of the guide', async () => {
    await cluster.shell('kubectl delete namespace jobs --timeout=120s')
    // Images are built and loaded, and ports forwarded, where containers run.
    for (const line of documented('kubectl create namespace', 'A laptop cluster')) {
      if (/^(kubectl|helm|node) /.test(line) && !line.includes('port-forward')) {
        await cluster.shell(line)
      }
    }
    await runTasks('jobs')
    await eventually(async () => expect(faultsIn(await objects())).toEqual([]))
  })

  it.each(Object.entries({ production, ...PLACES, ownSecret, rented }))(
    'is taken by the API server without a warning, with values for %s', async (_, values) => {
      const template = `helm template --validate --skip-tests vj ${CHART} -n trial ` +
        values.map(word => `'${word}'`).join(' ')
      const output = await cluster.shell(
        `${template} | kubectl -n trial apply --server-side --dry-run=server -f - 2>&1`)
      const lines = output.trim().split('\n')
      expect(lines.length).toBeGreaterThan(30)
      const applied = ' serverside-applied (server dry run)'
      expect(lines.filter(line => !line.endsWith(applied))).toEqual([])
    })
})
