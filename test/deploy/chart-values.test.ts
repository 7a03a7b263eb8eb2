import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  containerOf, faultsOf, isProgram, PLACES, render, type Manifest,
} from '../support/deploy/chart.ts'
import { configFaults, readChartPrograms } from '../support/deploy/deployed.ts'
import { root } from '../support/sources.ts'
import { yamlOf } from '../support/deploy/yaml.ts'

const CHART = join(root, 'deploy/helm/verification-jobs')
const RELEASE = 'vj-verification-jobs'
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

describe('values for places', () => {
  it('are tested for each file that the chart has', () => {
    const files = globSync('values-*.yaml', { cwd: CHART })
      .map(file => /values-(.*)\.yaml/.exec(file)?.[1])
    expect(files.toSorted()).toEqual([...Object.keys(PLACES), 'production'].toSorted())
  })
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

  it('let programs reach the ports of the stores that they name', async () => {
    const manifests = await render(PLACES[place])
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
