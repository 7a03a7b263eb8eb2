import { describe, expect, it } from 'vitest'
import { readChartPrograms } from '../support/deploy/deployed.ts'
import {
  containerOf, envOf, minimal, production, RELEASE, render, type Manifest,
} from '../support/deploy/chart.ts'

type ServiceSpec = {
  readonly clusterIP?: string
  readonly publishNotReadyAddresses?: boolean
  readonly selector: Readonly<Record<string, string>>
  readonly ports: readonly { readonly port: number, readonly targetPort: string }[]
}
type IngressPath = { readonly backend: { readonly service: { readonly name: string } } }
type IngressSpec = {
  readonly tls: readonly { readonly hosts: readonly string[], readonly secretName: string }[]
  readonly rules: readonly {
    readonly host: string
    readonly http: { readonly paths: readonly IngressPath[] }
  }[]
}

const COLLECTOR = 'http://collector.observability:4318'
const TRACES = {
  OTEL_EXPORTER_OTLP_ENDPOINT: COLLECTOR,
  OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
  OTEL_TRACES_SAMPLER_ARG: '0.1',
}

const named = <S>(manifests: readonly Manifest[], kind: string, name: string): S =>
  manifests.find(one => one.kind === kind && one.metadata.name === name)?.spec as S
const deployments = (manifests: readonly Manifest[]) =>
  manifests.filter(({ kind }) => kind === 'Deployment')

/** Deployments whose pods a selector finds. */
const found = (manifests: readonly Manifest[], selector: Readonly<Record<string, string>>) =>
  deployments(manifests).filter(({ spec: { template: { metadata: { labels } } } }) =>
    Object.entries(selector).every(([key, value]) => labels[key] === value))

describe.each([
  ['its own values', minimal], ['production values', production],
])('the page in the chart with %s', async (_, values) => {
  const manifests = await render(values)
  const page = deployments(manifests).find(({ metadata }) =>
    metadata.name === `${RELEASE}-page`) as Manifest

  it('finds the metrics of every pod of every stage by one name', () => {
    const target = new URL(envOf(page).METRICS_TARGETS ?? '')
    const service = named<ServiceSpec>(manifests, 'Service', target.hostname)
    expect([target.protocol, target.pathname]).toEqual(['http:', '/metrics'])
    expect(service).toMatchObject({ clusterIP: 'None', publishNotReadyAddresses: true })
    expect(found(manifests, service.selector).map(({ metadata }) => metadata.name))
      .toEqual(deployments(manifests).filter(one => one !== page)
        .map(({ metadata }) => metadata.name))
    // Without an address of its own a service does not translate ports.
    expect(service.ports.map(({ port, targetPort }) => [port, targetPort]))
      .toEqual([[Number(target.port), 'metrics']])
    for (const one of deployments(manifests)) {
      expect(containerOf(one).ports)
        .toContainEqual({ name: 'metrics', containerPort: Number(target.port) })
    }
  })

  it('reaches the metrics of all stages and the interface, which let it in', async () => {
    const stages = Object.entries(readChartPrograms())
      .filter(([name, { settings }]) => name !== 'page' && 'PORT_METRICS' in settings)
      .map(([name]) => name)
    const isPage = (from: unknown) =>
      JSON.stringify(from).includes('"verification-jobs/stage":"page"')
    for (const stage of stages) {
      const { ingress = [] } = named<Manifest['spec']>(
        manifests, 'NetworkPolicy', `${RELEASE}-${stage}`)
      const ports = ingress.filter(({ from }) => isPage(from)).map(rule => rule.ports)
      const wanted = ['metrics', ...stage === 'ingest' ? ['http'] : []]
      expect([stage, ports])
        .toEqual([stage, [wanted.map(port => ({ port, protocol: 'TCP' }))]])
    }
    const { egress = [] } = named<Manifest['spec']>(manifests, 'NetworkPolicy', `${RELEASE}-page`)
    expect(egress.map(({ ports }) => ports)).toContainEqual(
      ['metrics', 'http'].map(port => ({ port, protocol: 'TCP' })))
  })

  it('calls the API through its service, which trusts it like any proxy', () => {
    const interfaces = new URL(envOf(page).API_URL ?? '')
    const { selector } = named<ServiceSpec>(manifests, 'Service', interfaces.hostname)
    const [ingest, ...others] = found(manifests, selector)
    expect([interfaces.pathname, others]).toEqual(['/api/v1', []])
    expect(envOf(ingest as Manifest).TRUSTED_PROXIES).toBe('10.244.0.0/16')
    expect(envOf(page).TRUSTED_PROXIES).toBe('10.244.0.0/16')
  })
})

describe('the page in the chart', () => {
  it('takes other addresses of metrics where values name them', async () => {
    const target = 'http://elsewhere:9464/metrics'
    const manifests = await render(
      [...minimal, '--set', `stages.page.config.METRICS_TARGETS=${target}`])
    const page = deployments(manifests).find(({ metadata }) => metadata.name.endsWith('-page'))
    expect(envOf(page as Manifest).METRICS_TARGETS).toBe(target)
  })

  it('is reached from outside over TLS, by a host of its own', async () => {
    const manifests = await render(production)
    for (const [stage, host] of [['page', 'workspace'], ['ingest', 'api']]) {
      const ingress = named<IngressSpec>(manifests, 'Ingress', `${RELEASE}-${stage}`)
      expect(ingress.tls)
        .toEqual([{ hosts: [`${host}.example.com`], secretName: `${host}-example-com` }])
      expect(ingress.rules.map(rule =>
        [rule.host, ...rule.http.paths.map(({ backend }) => backend.service.name)]))
        .toEqual([[`${host}.example.com`, `${RELEASE}-${stage}`]])
    }
  })
})

describe('traces in the chart', () => {
  const reaching = (manifests: readonly Manifest[]) => manifests
    .filter(({ kind, spec }) => kind === 'NetworkPolicy' &&
      JSON.stringify(spec.egress ?? []).includes('"observability"'))
    .map(({ metadata }) => metadata.name).toSorted()

  it('are sent by every service where values name a collector, and may reach it', async () => {
    const settings = Object.entries(TRACES)
    const manifests = await render([
      ...minimal, ...settings.flatMap(([key, value]) => ['--set', `config.${key}=${value}`]),
    ])
    const all = deployments(manifests)
    expect(all.map(one => settings.map(([key]) => [key, envOf(one)[key]])))
      .toEqual(all.map(() => settings))
    expect(reaching(manifests)).toEqual(all.map(({ metadata }) => metadata.name).toSorted())
  })

  it('are neither sent nor let out otherwise', async () => {
    const manifests = await render()
    expect(deployments(manifests).map(one => envOf(one).OTEL_EXPORTER_OTLP_ENDPOINT))
      .toEqual(deployments(manifests).map(() => undefined))
    expect(reaching(manifests)).toEqual([])
  })
})

it('TLS in the chart with production values ' +
  'takes addresses from the secret, and trusts the authority it mounts', async () => {
  const pods = (await render(production))
    .filter(({ kind }) => kind === 'Deployment' || kind === 'Job')
  expect(pods.length).toBeGreaterThan(15)
  for (const pod of pods) {
    const { env, volumeMounts } = containerOf(pod)
    const plain = env.filter(({ name, value }) => name.endsWith('_URL') && value !== undefined)
    expect(plain.map(({ name }) => name).filter(name => name !== 'API_URL')).toEqual([])
    const file = envOf(pod).NODE_EXTRA_CA_CERTS ?? ''
    const mount = volumeMounts.find(({ mountPath }) => file === `${mountPath}/ca.crt`)
    expect(pod.spec.template.spec.volumes).toContainEqual({
      name: mount?.name,
      secret: { secretName: 'verification-jobs-ca', items: [{ key: 'ca.crt', path: 'ca.crt' }] },
    })
  }
})
