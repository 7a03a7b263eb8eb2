import { describe, expect, it } from 'vitest'
import { allTopics } from '../../services/runtime/platform/topics.ts'
import { METRICS } from '../../services/runtime/platform/metric-list.ts'
import { STAGES } from '../../services/topology.ts'
import {
  containerOf, envOf, everyProgram, isProgram, minimal, named, podOf, production, render,
  type Manifest,
} from '../support/deploy/chart.ts'
import {
  consumersOf, programOf, readChartPrograms, servedBy, settingFaults, wantedByTopology,
  type Deployed,
} from '../support/deploy/deployed.ts'

/** Variables of Node itself. */
const OF_NODE = ['NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS']

/** Where the stores are, by the default values and by those of production. */
const STORES = {
  KAFKA_BROKERS: /"kafka"|10\.20\.0\./,
  SCHEMA_REGISTRY_URL: /"apicurio-registry"|10\.20\.1\./,
  REDIS_STATE_URL: /"redis-state"|10\.20\.2\./,
  REDIS_CACHE_URL: /"redis-cache"|10\.20\.3\./,
  CLICKHOUSE_URL: /"clickhouse"|10\.20\.4\./,
} as const

function deployed (manifests: readonly Manifest[], ...kinds: readonly string[]): Deployed[] {
  return manifests.filter(({ kind }) => kinds.includes(kind)).map(manifest => ({
    name: manifest.metadata.name, program: programOf(manifest), env: envOf(manifest),
  }))
}

describe.each([
  ['its own values', minimal], ['production values', production],
])('the chart with %s', async (_, values) => {
  const manifests = await render([...values, ...everyProgram])
  const running = deployed(manifests, 'Deployment')
  const scalers = () => manifests.filter(({ kind }) => kind === 'ScaledObject')
  const policy = (stage: string) => named(manifests, 'NetworkPolicy', stage)

  it('runs every stage and reads every topic in every consumer group', () => {
    expect(servedBy(running)).toEqual(wantedByTopology())
  })

  it('provisions what the stages need before they start, and takes rights once they run', () => {
    const jobs = manifests.filter(({ kind }) => kind === 'Job')
    expect(jobs.map(job =>
      [job.metadata.annotations?.['helm.sh/hook'], ...containerOf(job).args])).toEqual([
      ['pre-install,pre-upgrade,pre-rollback', 'deploy/provision.ts', '--keep-rules'],
      ['post-install,post-upgrade,post-rollback', 'deploy/provision.ts'],
    ])
  })

  it('gives every program settings it reads, and all that it requires', async () => {
    const programs = [...running, ...deployed(manifests, 'Job', 'CronJob', 'Pod')]
    expect(settingFaults(programs, OF_NODE)).toEqual([])
  })

  it('has ingest alone reach the cache as a user of its own', () => {
    const readers = running.filter(({ env }) => 'REDIS_CACHE_URL' in env)
    const own = readers.filter(({ env }) => env.REDIS_CACHE_URL !== 'REDIS_CACHE_URL')
    expect(readers.length).toBeGreaterThan(own.length)
    expect(own.map(({ program, env }) => [program, env.REDIS_CACHE_URL]))
      .toEqual([['services/ingest/main.ts', 'REDIS_CACHE_URL_INGEST']])
  })

  it('scales every deployment, each group by the age of its oldest chunk', () => {
    const metric = METRICS.find(({ name }) => name === 'stage_oldest_age_seconds')
    expect(metric?.labels).toContain('group')
    for (const program of running) {
      const scaler = scalers().find(({ spec }) => spec.scaleTargetRef.name === program.name)
      const groups = consumersOf(program)
      const triggers = scaler?.spec.triggers.map(({ type, metadata }) =>
        type === 'prometheus' ? metadata.query : type)
      const ages = groups.map(({ group }) =>
        `max(${metric?.name}{group="${group}",namespace="jobs"})`)
      expect([program.name, triggers]).toEqual([program.name, ages.length > 0 ? ages : ['cpu']])
    }
    expect(scalers()).toHaveLength(running.length)
  })

  it('starts no more members of a group than its topic has partitions', () => {
    const partitionsOf = new Map(allTopics().map(({ name, partitions }) => [name, partitions]))
    const idle = running.flatMap(program => {
      const scaler = scalers().find(({ spec }) => spec.scaleTargetRef.name === program.name)
      const topics = consumersOf(program).flatMap(consumer => consumer.topics)
      const most = Math.max(...topics.map(topic => partitionsOf.get(topic) ?? 0))
      const wanted = scaler?.spec.maxReplicaCount ?? Infinity
      return topics.length > 0 && wanted > most ? [`${program.name}: ${wanted} > ${most}`] : []
    })
    expect(idle).toEqual([])
  })

  it('names in each deployment its topics and groups', () => {
    for (const { kind, metadata: { name, annotations } } of manifests) {
      if (kind !== 'Deployment') continue
      const program = running.find(one => one.name === name) as Deployed
      const own = consumersOf(program)
      expect(annotations?.['verification-jobs/groups'])
        .toBe(own.map(({ group }) => group).join())
      expect(annotations?.['verification-jobs/reads'])
        .toBe(own.flatMap(({ topics }) => topics).join())
    }
  })

  it('has a budget of disruptions for every deployment', () => {
    const budgets = manifests.filter(({ kind }) => kind === 'PodDisruptionBudget')
    expect(budgets.map(({ metadata }) => metadata.name).toSorted())
      .toEqual(running.map(({ name }) => name).toSorted())
  })

  it('allows a stage only the stores whose addresses it reads', async () => {
    for (const [stage, { settings, secrets }] of Object.entries(readChartPrograms())) {
      const rules = policy(stage)?.spec.egress?.map(({ to }) => JSON.stringify(to)) ?? []
      const reached = Object.entries(STORES).filter(([, place]) => rules.some(to => place.test(to)))
      const read = Object.keys(STORES).filter(key => key in settings || key in secrets)
      expect([stage, reached.map(([key]) => key)]).toEqual([stage, read])
      const outside = rules.filter(to => to.includes('0.0.0.0/0')).length
      expect([stage, outside]).toEqual([stage, ['deliver', 'verify'].includes(stage) ? 1 : 0])
      // One rule each for names, the stores, what the page and the smoke test request, and the
      // internet.
      const pageRules = 'API_URL' in settings ? 1 : 0
      expect([stage, rules.length]).toEqual([stage, 1 + read.length + pageRules + outside])
    }
  })

  it('denies all that no policy allows', () => {
    const nothing = policy('nothing')
    expect(nothing?.spec.policyTypes).toEqual(['Ingress', 'Egress'])
    expect(nothing?.spec.egress).toBeUndefined()
    const selected = Object.entries(nothing?.spec.podSelector.matchLabels ?? { none: '' })
    for (const { metadata } of manifests.filter(isProgram).map(podOf)) {
      expect(Object.entries(metadata.labels)).toEqual(expect.arrayContaining(selected))
    }
  })

  it('runs without root, tokens, rights or a file system to write to', () => {
    for (const { spec } of manifests.filter(isProgram).map(podOf)) {
      expect(spec).toMatchObject({
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, runAsUser: 1000 },
        containers: [{
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
        }],
      })
    }
  })
})

it('production values ' +
  'sign in by names with the prefix of shared brokers, and give it to all', async () => {
  const manifests = await render([...production, '--set', 'config.TOPIC_PREFIX=eu.'])
  const [job] = deployed(manifests, 'Job')
  expect(job?.env).toMatchObject({ TOPIC_PREFIX: 'eu.', KAFKA_SASL_USERNAME: 'admin' })
  const signIn = deployed(manifests, 'Deployment').filter(one => 'KAFKA_TLS' in one.env)
  expect(new Set(signIn.map(({ env }) =>
    `${env.TOPIC_PREFIX} ${env.KAFKA_SASL_USERNAME} ${env.KAFKA_SASL_PASSWORD}`)))
    .toEqual(new Set(STAGES.map(stage =>
      `eu. eu.${stage} KAFKA_PASSWORD_${stage.toUpperCase()}`)))
})
