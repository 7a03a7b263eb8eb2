import { describe, expect, it } from 'vitest'
import {
  ownSecret, faultsOf, helm, isOfKubernetes, minimal, PLACES, production, render, rented,
} from '../support/deploy/chart.ts'

const ALWAYS = ['PodMonitor', 'PrometheusRule', 'ScaledObject']

type ValueSet = readonly [name: string, values: readonly string[], foreignKinds: readonly string[]]
const SETS: readonly ValueSet[] = [
  ['its own values', minimal, ALWAYS],
  ['production values', production, ALWAYS],
  ['a secret of its own and all that can be left out', ownSecret, ALWAYS],
  ['secrets, names and routes of others', rented,
    [...ALWAYS, 'CiliumNetworkPolicy', 'ExternalSecret', 'HTTPRoute']],
  ...Object.entries(PLACES).map(([place, files]): ValueSet => {
    const others = { 'confluent-cloud': [...ALWAYS, 'CiliumNetworkPolicy'], laptop: [] }
    return [`values for ${place}`, files, others[place as 'laptop'] ?? ALWAYS]
  }),
]

describe.each(SETS)('the chart with %s', async (_, values, foreignKinds) => {
  const manifests = await render(values)

  it('passes the linter', async () => {
    expect(await helm('lint', values)).toEqual({ code: 0, output: expect.any(String) })
  })

  it('renders manifests that Kubernetes knows, field by field', async () => {
    const own = manifests.filter(isOfKubernetes)
    expect(own.length).toBeGreaterThan(30)
    expect(await faultsOf(own)).toEqual([])
  })

  it('renders resources of others that it needs, whose fields an API server checks', () => {
    const foreign = manifests.filter(manifest => !isOfKubernetes(manifest))
    expect(new Set(foreign.map(({ kind }) => kind))).toEqual(new Set(foreignKinds))
  })

  it('gives no two objects the same name', () => {
    const names = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
  })
})

describe('the chart', () => {
  it.each([
    ['configMap', { configMap: { name: 'mine' } }],
    ['existingClaim', { persistentVolumeClaim: { claimName: 'mine', readOnly: true } }],
  ])('gives lists of a %s to what reads them, as a whole folder', async (value, source) => {
    const pods = (await render([...minimal, '--set', `lists.${value}=mine`]))
      .filter(({ kind }) => kind === 'Deployment').map(({ spec }) => spec.template.spec)
    const withLists = pods.filter(({ volumes }) => JSON.stringify(volumes).includes('mine'))
    expect(withLists.map(({ containers: [{ args }] }) => args))
      .toEqual([['services/ingest/main.ts'], ['services/verify/main.ts']])
    const folder = '/etc/verification-jobs/lists'
    for (const { volumes, containers: [{ env, volumeMounts }] } of withLists) {
      expect(volumes).toContainEqual({ name: 'lists', ...source })
      expect(volumeMounts).toContainEqual({ name: 'lists', mountPath: folder, readOnly: true })
      expect(env).toContainEqual({ name: 'LISTS_DIR', value: folder })
    }
  })

  it.each([
    ['an unknown setting', ['--set', 'config.KAFKA_BROKER=x:1'],
      'config.KAFKA_BROKER: no program reads a setting of this name'],
    ['a secret among the settings', ['--set', 'config.RESULTS_ROOT_KEYS=x'],
      'config.RESULTS_ROOT_KEYS is a secret'],
    ['a setting a stage does not read', ['--set', 'stages.settle.config.DNS_SERVERS=x'],
      'services/settle/main.ts reads no setting DNS_SERVERS'],
    ['a key of the secret for what a stage does not read', ['--set',
      'stages.settle.secretKeys.REDIS_CACHE_URL=x'],
    'services/settle/main.ts reads no secret REDIS_CACHE_URL'],
    ['no address of brokers', ['--set', 'config.KAFKA_BROKERS=null'],
      'config.KAFKA_BROKERS is missing'],
    ['a stage left out', ['--set', 'stages.settle.enabled=false'], 'nothing runs settle'],
    ['a lane left out', ['--set', 'stages.lookup.lanes={bulk}'],
      'nothing reads for the group lookup.small'],
    ['a service left out', ['--set', 'stages.verify.services={whatsapp}'],
      'nothing reads for the group verify.'],
    ['lanes of a stage that has none', ['--set', 'stages.deliver.lanes={bulk}'],
      "deliver can't be limited to some lanes"],
    ['an unknown stage', ['--set', 'stages.mail.enabled=true'], 'there is no program "mail"'],
    ['an unknown value', ['--set', 'stages.settle.replica=2'], 'replica'],
    ['no proxy that is trusted for HTTPS', ['--set', 'config.TRUSTED_PROXIES='],
      'config.TRUSTED_PROXIES is missing'],
    ['dashboards without a label', ['--set', 'dashboards.labels.grafana_dashboard=null'],
      '/dashboards/labels'],
    ['an unknown sampler', ['--set', 'config.OTEL_SAMPLER=x'], 'config.OTEL_SAMPLER'],
    ['a secret to create that lacks a key', ['--set', 'secrets.create=true', '--set',
      'secrets.existingSecret='], 'is missing'],
    ['two sources of lists', ['--set', 'lists.configMap=a', '--set', 'lists.existingClaim=b'],
      'lists.configMap and lists.existingClaim exclude each other'],
    ['two sources of secrets', ['--set', 'secrets.create=true'], 'exclude each other'],
    ['a secret of nothing', ['--set', 'secrets.externalSecret.storeRef.name=vault'],
      'secrets.externalSecret.key is missing'],
    ['a name where no policy knows names', ['--set', 'network.stores.kafka.fqdns={a.example.com}'],
      'set network.cilium.enabled'],
    ['a route without a gateway', ['--set', 'gateway.enabled=true'],
      'gateway.parentRefs is missing'],
  ])('refuses %s, and says so', async (_, args, words) => {
    const { code, output } = await helm('template', [...minimal, ...args])
    expect(code).toBe(1)
    expect(output).toContain(words)
  })
})
