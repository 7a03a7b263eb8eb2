import { describe, expect, it } from 'vitest'
import { readChartPrograms } from '../support/deploy/deployed.ts'
import {
  containerOf, everyProgram, json, minimal, named, RELEASE, render, type Manifest,
} from '../support/deploy/chart.ts'

const BROKERS = ['b-1.example.com', '*.kafka.example.com']

type NamedEgress = {
  readonly toFQDNs?: readonly object[]
  readonly toPorts?: readonly { readonly ports: readonly object[], readonly rules?: object }[]
}
type Rule = { readonly to: readonly unknown[], readonly ports?: readonly object[] }

const egressOf = (manifests: readonly Manifest[], name: string) =>
  (named(manifests, 'NetworkPolicy', name)?.spec.egress ?? []) as readonly Rule[]
const namesOf = (manifests: readonly Manifest[], name: string) =>
  (named(manifests, 'CiliumNetworkPolicy', name)?.spec.egress ?? []) as readonly NamedEgress[]
const hasDns = (rules: readonly Rule[]) =>
  rules.some(({ ports = [] }) => JSON.stringify(ports) ===
    JSON.stringify([{ port: 53, protocol: 'UDP' }, { port: 53, protocol: 'TCP' }]))

describe('destinations by name', async () => {
  const brokers = { toFQDNs: [{ matchName: BROKERS[0] }, { matchPattern: BROKERS[1] }] }
  const manifests = await render([...minimal, ...everyProgram, ...json('network', {
    cilium: { enabled: true },
    stores: { kafka: { ports: [9096], fqdns: BROKERS } },
    outside: { verify: { ports: [{ port: 443 }], fqdns: ['api.vendor.example.com'] } },
  })])

  it('are open to each program that has them, by its port, and to no address', () => {
    for (const [name, { settings }] of Object.entries(readChartPrograms())) {
      const rules = namesOf(manifests, name).filter(({ toFQDNs }) => toFQDNs !== undefined)
      const wanted = [
        ...'KAFKA_BROKERS' in settings
          ? [{ ...brokers, toPorts: [{ ports: [{ port: '9096', protocol: 'TCP' }] }] }]
          : [],
        ...name === 'verify'
          ? [{
              toFQDNs: [{ matchName: 'api.vendor.example.com' }],
              toPorts: [{ ports: [{ port: '443', protocol: 'TCP' }] }],
            }]
          : [],
      ]
      expect([name, rules]).toEqual([name, wanted])
      const open = JSON.stringify(egressOf(manifests, name))
      expect([name, open.includes('9096'), open.includes('0.0.0.0/0')])
        .toEqual([name, false, name === 'deliver'])
    }
  })

  it('are resolved where Cilium reads the answers, and nowhere beside it', () => {
    for (const name of Object.keys(readChartPrograms())) {
      const policy = namesOf(manifests, name)
      const readsDns = policy.some(({ toPorts = [] }) => toPorts.some(({ rules }) =>
        JSON.stringify(rules) === JSON.stringify({ dns: [{ matchPattern: '*' }] })))
      expect([name, readsDns, hasDns(egressOf(manifests, name))])
        .toEqual([name, policy.length > 0, policy.length === 0])
    }
  })
})

it('sign-in at the brokers by tokens ' +
  'reaches what gives them, from each program that uses the brokers', async () => {
  const provider = { ports: [443], to: [{ ipBlock: { cidr: '10.9.0.0/24' } }] }
  const manifests = await render([...minimal, ...json('network.kafkaSignIn', [provider])])
  for (const [name, { settings }] of Object.entries(readChartPrograms())) {
    expect([name, JSON.stringify(egressOf(manifests, name)).includes('10.9.0.0/24')])
      .toEqual([name, 'KAFKA_BROKERS' in settings])
  }
})

describe('IPv6', () => {
  const outsideOf = (manifests: readonly Manifest[]) => egressOf(manifests, 'deliver').at(-1)?.to
  const hosts = (manifests: readonly Manifest[]) => new Set(manifests
    .filter(({ kind }) => kind === 'Deployment')
    .flatMap(pod => containerOf(pod).env.filter(({ name }) => /^HOST(_METRICS)?$/.test(name)))
    .map(({ value }) => value))
  const privateIpv4 = ['10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16',
    '172.16.0.0/12', '192.168.0.0/16']
  const ipv4 = { ipBlock: { cidr: '0.0.0.0/0', except: privateIpv4 } }
  const policies = (manifests: readonly Manifest[]) => manifests
    .filter(({ kind, metadata }) => kind === 'Service' && !metadata.name.endsWith('-metrics'))
    .map(({ spec }) => (spec as { readonly ipFamilyPolicy?: string }).ipFamilyPolicy)

  it('is listened on and let out to public addresses where values ask for it', async () => {
    const manifests = await render([...minimal, '--set', 'network.ipv6=true'])
    expect([...hosts(manifests)]).toEqual(['::'])
    expect(outsideOf(manifests))
      .toEqual([ipv4, { ipBlock: { cidr: '::/0', except: ['fc00::/7', 'fe80::/10'] } }])
    expect(policies(manifests)).toEqual(['PreferDualStack', 'PreferDualStack'])
  })

  it('is not otherwise', async () => {
    const manifests = await render()
    expect([...hosts(manifests)]).toEqual(['0.0.0.0'])
    expect(outsideOf(manifests)).toEqual([ipv4])
    expect(policies(manifests)).toEqual([undefined, undefined])
  })
})

it('routes of the Gateway API ' +
  'lead each host to the service of its stage, from the gateway that values name', async () => {
  const parentRefs = [{ name: 'public', namespace: 'gateways' }]
  const hosts = { ingest: 'api.example.com', page: 'workspace.example.com' }
  const manifests = await render([...minimal,
    ...json('gateway', { enabled: true, parentRefs, hosts })])
  for (const [stage, host] of Object.entries(hosts)) {
    const service = named(manifests, 'Service', stage)?.spec as unknown as
      { readonly ports: readonly { readonly port: number }[] }
    expect(named(manifests, 'HTTPRoute', stage)?.spec).toEqual({
      parentRefs,
      hostnames: [host],
      rules: [{
        backendRefs: [{ name: `${RELEASE}-${stage}`, port: service.ports[0]?.port }],
      }],
    })
  }
  expect(manifests.filter(({ kind }) => kind === 'HTTPRoute')).toHaveLength(2)
})

it('a secret from a store ' +
  'is the one that pods read, and has a copy before provision, which goes with it',
async () => {
  const data = { RESULTS_ROOT_KEYS: 'prod/results' }
  const manifests = await render([...minimal, ...json('secrets', {
    existingSecret: 'mine',
    externalSecret: { storeRef: { name: 'vault', kind: 'SecretStore' }, key: 'prod', data },
  })])
  const [secret, copy, ...others] = manifests.filter(({ kind }) => kind === 'ExternalSecret')
  expect(others).toEqual([])
  const spec = (name: string) => ({
    refreshInterval: '1h',
    secretStoreRef: { name: 'vault', kind: 'SecretStore' },
    target: { name, creationPolicy: 'Owner', deletionPolicy: 'Retain' },
    dataFrom: [{ extract: { key: 'prod' } }],
    data: [{ secretKey: 'RESULTS_ROOT_KEYS', remoteRef: { key: 'prod/results' } }],
  })
  expect([secret?.spec, copy?.spec]).toEqual([spec('mine'), spec('mine-provision')])
  const secretsOf = (kind: string) => new Set(manifests.filter(pod => pod.kind === kind)
    .flatMap(pod => containerOf(pod).env.map(({ valueFrom }) => valueFrom?.secretKeyRef))
    .flatMap(ref => ref === undefined ? [] : [ref.name]))
  expect(secretsOf('Deployment')).toEqual(new Set(['mine']))
  expect(secretsOf('Job')).toEqual(new Set(['mine-provision']))
  expect(secret?.metadata.annotations).toBeUndefined()
  const hooks = ['provision', 'provision-rules'].map(name =>
    named(manifests, 'Job', name)?.metadata.annotations)
  expect(copy?.metadata.annotations).toEqual({
    ...hooks[0],
    'helm.sh/hook': hooks.map(annotations => annotations?.['helm.sh/hook']).join(),
    'helm.sh/hook-weight': '-10',
  })
})
