import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { topicConfig } from '../../services/runtime/kafka/admin.ts'
import {
  containerOf, faultsOf, isProgram, named, PLACES, podOf, RELEASE, render, type Manifest,
} from '../support/deploy/chart.ts'
import { configFaults, readChartPrograms } from '../support/deploy/deployed.ts'
import { root } from '../support/sources.ts'
import { yamlOf } from '../support/deploy/yaml.ts'

const CHART = join(root, 'deploy/helm/verification-jobs')
const ADDRESSES = [
  'KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'REDIS_CACHE_URL', 'CLICKHOUSE_URL',
]

const textOf = (place: string) => readFileSync(join(CHART, `values-${place}.yaml`), 'utf8')

/** The text of all files of a place, in the order in which they are passed. */
const textsOf = (place: keyof typeof PLACES) =>
  PLACES[place].filter(arg => arg.endsWith('.yaml')).map(file => readFileSync(file, 'utf8'))

/** The port of each address that the place has or names in a comment, by its setting. */
function portsOf (place: keyof typeof PLACES): ReadonlyMap<string, string> {
  const found = textsOf(place).flatMap(text => ADDRESSES.flatMap(key => {
    const [, address = ''] = new RegExp(`^(?:#|) +${key}:? +(\\S+)`, 'm').exec(text) ?? []
    const usual = address.startsWith('https:') ? '443' : undefined
    const port = /:(\d+)(?:[/,]|$)/.exec(address)?.[1] ?? usual
    return port === undefined ? [] : [[key, port] as const]
  }))
  return new Map(found)
}

it('values for places are tested for each file that the chart has', () => {
  const files = globSync('values-*.yaml', { cwd: CHART })
    .map(file => /values-(.*)\.yaml/.exec(file)?.[1])
  expect(files.toSorted()).toEqual([...Object.keys(PLACES), 'production'].toSorted())
})

describe.each(Object.keys(PLACES) as (keyof typeof PLACES)[])('values for %s', place => {
  it('give each program settings that it accepts, with the keys that comments name', async () => {
    const pods = (await render(PLACES[place])).filter(isProgram)
    expect(await configFaults(pods, key => new RegExp(`\\b${key}\\b`).test(textOf(place))))
      .toEqual([])
    const documented = [textOf(place), readFileSync(join(CHART, 'values.yaml'), 'utf8')].join('\n')
    const required = pods.flatMap(pod => containerOf(pod).env.flatMap(({ valueFrom }) => {
      const { key = '', optional = false } = valueFrom?.secretKeyRef ?? {}
      return optional || key === '' ? [] : [key]
    }))
    expect(required.filter(key => !new RegExp(`\\b${key}\\b`).test(documented))).toEqual([])
  })

  it('name secrets that a command of the guide or of their comments makes', async () => {
    const guide = readFileSync(join(root, 'deploy/docs/deployment.md'), 'utf8')
    const made = [guide, ...textsOf(place)].flatMap(text =>
      [...text.matchAll(/create secret (?:generic|tls) (\S+)/g)].map(([, name]) => name))
    const manifests = JSON.stringify(await render(PLACES[place]))
    const used = [...manifests.matchAll(/"secret(?:Name":|KeyRef":\{[^}]*"name":)"([^"]+)"/g)]
      .map(([, name]) => name)
    expect(new Set(used).size).toBeGreaterThan(0)
    expect([...new Set(used)].filter(name => !made.includes(name))).toEqual([])
  })

  it('have commands make topics of partners as provision makes the others', async () => {
    const pods = (await render(PLACES[place])).filter(isProgram)
    const settingsOf = (name: string) => pods
      .filter(({ metadata }) => metadata.name === `${RELEASE}-${name}`)
      .flatMap(pod => containerOf(pod).env.filter(({ name: key }) => key in topicConfig))
    expect(settingsOf('admin')).toEqual(settingsOf('provision'))
    if (place === 'laptop') return
    expect(settingsOf('admin')).toContainEqual({ name: 'TOPIC_REPLICATION', value: '3' })
    expect(settingsOf('admin')).toContainEqual({ name: 'TOPIC_MIN_INSYNC', value: '2' })
    expect(settingsOf('admin')).toContainEqual({ name: 'KAFKA_ACCESS_RULES', value: 'off' })
  })

  it('let programs reach the ports of the stores that they name', async () => {
    const manifests = await render([...PLACES[place], '--set', 'backup.enabled=true'])
    const ports = portsOf(place)
    expect([...ports.keys()].toSorted()).toEqual(ADDRESSES.toSorted())
    if (place === 'laptop') return
    for (const [name, { settings, secrets }] of Object.entries(readChartPrograms())) {
      const policies = manifests.filter(({ kind, metadata }) =>
        kind.endsWith('NetworkPolicy') && metadata.name === `${RELEASE}-${name}`)
      const open = JSON.stringify(policies.map(({ spec: { egress } }) => egress))
      const closed = ADDRESSES.filter(key => key in settings || key in secrets)
        .filter(key => !new RegExp(`"port":"?${ports.get(key)}"?[,}]`).test(open))
      expect([name, closed]).toEqual([name, []])
    }
  })
})

it('values for google ' +
  'let pods ask the cache of names on their node and Cloud DNS, which are no pods', async () => {
  for (const { kind, metadata, spec } of await render(PLACES.google)) {
    if (kind !== 'NetworkPolicy' || metadata.name === `${RELEASE}-nothing`) continue
    const [names] = spec.egress ?? []
    expect([metadata.name, names?.to]).toEqual([metadata.name, expect.arrayContaining(
      ['169.254.20.10/32', '169.254.169.254/32'].map(cidr => ({ ipBlock: { cidr } })))])
  }
})

describe('the schema registry beside managed brokers', () => {
  const registry =
    yamlOf(readFileSync(join(CHART, '../apicurio-registry.yaml'), 'utf8')) as Manifest[]
  const manifestOf = (kind: string) =>
    registry.find(manifest => manifest.kind === kind) as Manifest

  it('is made of manifests that Kubernetes knows, field by field, with the image of Compose',
    async () => {
      expect(await faultsOf(registry)).toEqual([])
      expect(readFileSync(join(root, 'deploy/compose.yaml'), 'utf8'))
        .toContain(`image: ${containerOf(manifestOf('Deployment')).image}\n`)
    })

  it('is admitted to the namespace of the chart, which takes restricted pods only', () => {
    expect(podOf(manifestOf('Deployment')).spec).toMatchObject({
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [{
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
      }],
    })
  })

  it.each(['aws-msk-scram', 'google'] as const)(
    'answers where values for %s expect it, to pods of the chart alone', async place => {
      const manifests = await render(PLACES[place])
      const { labels } = podOf(manifestOf('Deployment')).metadata
      const provision = named(manifests, 'NetworkPolicy', 'provision')
      expect(provision?.spec.egress).toContainEqual({
        to: [{ podSelector: { matchLabels: labels } }], ports: [{ port: 8080, protocol: 'TCP' }],
      })
      const { metadata: { name }, spec } = manifestOf('Service')
      expect(spec).toEqual({ selector: labels, ports: [{ port: 8080 }] })
      expect(textOf(place)).toContain(`http://${name}:8080/`)
      const [{ from } = { from: [] }] = manifestOf('NetworkPolicy').spec.ingress ?? []
      const [pods] = from as readonly { podSelector: { matchLabels: object } }[]
      for (const pod of manifests.filter(isProgram).map(podOf)) {
        expect(pod.metadata.labels).toMatchObject(pods?.podSelector.matchLabels ?? { none: '' })
      }
    })
})

describe('stores of a laptop cluster', () => {
  const stores = yamlOf(readFileSync(join(CHART, '../laptop-stores.yaml'), 'utf8')) as Manifest[]

  it('are manifests that Kubernetes knows, field by field', async () => {
    expect(await faultsOf(stores)).toEqual([])
  })

  it('answer at the addresses that the values have, with images of Compose', () => {
    const ports = portsOf('laptop')
    const hosts = ADDRESSES.map(key => {
      const [, address = ''] = new RegExp(`^ +${key}: (\\S+)`, 'm').exec(textOf('laptop')) ?? []
      return `${/(?:@|\/\/|^)([a-z-]+):\d/.exec(address)?.[1]}:${ports.get(key)}`
    })
    const services = stores.filter(({ kind }) => kind === 'Service').map(({ metadata, spec }) =>
      `${metadata.name}:${(spec as unknown as { ports: [{ port: number }] }).ports[0].port}`)
    expect(services.toSorted()).toEqual(hosts.toSorted())
    const compose = readFileSync(join(root, 'deploy/compose.yaml'), 'utf8')
    for (const store of stores.filter(({ kind }) => kind === 'Deployment')) {
      // The registry of Compose keeps its schemas in Kafka, this one in memory.
      const image = containerOf(store).image.replace('registry-mem', 'registry-kafkasql')
      expect(compose).toContain(image)
    }
  })
})
