import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { PROCESS_KEYS } from '../../services/topology.ts'
import {
  containerOf, faultsOf, helm, isOfKubernetes, isProgram, json, minimal, named, RELEASE, render,
  type Manifest,
} from '../support/deploy/chart.ts'
import { newFolder } from '../support/folder.ts'
import { blocksOf } from '../support/guides/guide.ts'
import { root } from '../support/sources.ts'

const PAGE = 'deploy/docs/root-keys.md'
const ROLE = 'eks.amazonaws.com/role-arn'
const VAULT = { ports: [8200], to: [{ podSelector: { matchLabels: { app: 'vault' } } }] }
const POD_IDENTITY = { ports: [80], to: [{ ipBlock: { cidr: '169.254.170.23/32' } }] }
const VOLUME = { name: 'vault-token', secret: { secretName: 'vault-token-deliver' } }
const MOUNT = { name: 'vault-token', mountPath: '/vault', readOnly: true }
const ENV = {
  VAULT_ADDR: 'https://vault:8200', VAULT_TOKEN_FILE: '/vault/token', AWS_REGION: 'eu-central-1',
}

const values = [
  ...minimal, '--set', 'defaults.podAnnotations.a=all',
  '--set', 'defaults.podAnnotations.b=all',
  ...json('rootKeys.env', ENV),
  ...json('network.rootKeys', [VAULT, POD_IDENTITY]),
  ...json('stages.deliver', {
    podAnnotations: { b: 'own' },
    serviceAccountAnnotations: { [ROLE]: 'arn:aws:iam::111122223333:role/deliver' },
    volumes: [VOLUME],
    volumeMounts: [MOUNT],
  }),
]
/** What has a class of root keys, as the chart names it. */
const owners = [
  ...Object.entries(PROCESS_KEYS).filter(([, classes]) => classes.length > 0).map(([name]) => name),
  // One opens results, the other runs all commands of operators.
  'audit', 'admin',
].map(name => `${RELEASE}-${name}`).toSorted()

const manifests = await render(values)

const found = (kind: string, name: string) => named(manifests, kind, name) as Manifest
const namesOf = (kind: string, isSo: (manifest: Manifest) => boolean) => manifests
  .filter(one => one.kind === kind && isSo(one)).map(({ metadata }) => metadata.name).toSorted()
const pods = () => manifests.filter(isProgram)

describe('the chart with root keys in AWS KMS or Vault', () => {
  it('renders manifests that Kubernetes knows', async () => {
    expect(await faultsOf(manifests.filter(isOfKubernetes))).toEqual([])
  })

  it('renders the values of the page on root keys', async () => {
    const folder = newFolder('verification-jobs-values-')
    const examples = blocksOf(PAGE, readFileSync(join(root, PAGE), 'utf8'))
      .filter(({ language }) => language === 'yaml')
    expect(examples).toHaveLength(2)
    for (const { content } of examples) {
      writeFileSync(`${folder}/values.yaml`, content)
      const rendered = await render([...minimal, '--values', `${folder}/values.yaml`])
      expect(await faultsOf(rendered.filter(isOfKubernetes))).toEqual([])
    }
  })

  it('lets each process with a class reach the providers, and no other', () => {
    for (const { ports, to } of [VAULT, POD_IDENTITY]) {
      const rule = { to, ports: ports.map(port => ({ port, protocol: 'TCP' })) }
      const reaches = ({ spec: { egress = [] } }: Manifest) =>
        egress.some(one => JSON.stringify(one) === JSON.stringify(rule))
      expect(namesOf('NetworkPolicy', reaches)).toEqual(owners)
    }
  })

  it('gives the variables of the providers to each process with a class, and to no other', () => {
    for (const [key, value] of Object.entries(ENV)) {
      const holders = pods().filter(pod =>
        containerOf(pod).env.some(one => one.name === key && one.value === value))
      expect(holders.map(({ metadata }) => metadata.name).toSorted()).toEqual(owners)
    }
  })

  it('gives each deployment an account of its own, with its role', () => {
    // Both jobs that provision have one.
    const accounts = pods().map(({ metadata }) => metadata.name)
      .filter(name => !name.endsWith('-provision-rules')).toSorted()
    expect(namesOf('ServiceAccount', () => true)).toEqual(accounts)
    const used = (name: string) => found('Deployment', name).spec.template.spec
    expect(used('deliver')).toMatchObject({ serviceAccountName: `${RELEASE}-deliver` })
    expect(used('settle')).toMatchObject({ serviceAccountName: `${RELEASE}-settle` })
    expect(found('ServiceAccount', 'deliver').metadata.annotations)
      .toEqual({ [ROLE]: 'arn:aws:iam::111122223333:role/deliver' })
    expect(namesOf('ServiceAccount', ({ metadata }) => ROLE in (metadata.annotations ?? {})))
      .toEqual([`${RELEASE}-deliver`])
  })

  it('mounts volumes into the deployment that names them, and annotates its pods', () => {
    const hasVolume = ({ spec }: Manifest) =>
      JSON.stringify(spec.template.spec.volumes).includes(JSON.stringify(VOLUME))
    expect(namesOf('Deployment', hasVolume)).toEqual([`${RELEASE}-deliver`])
    const deliver = found('Deployment', 'deliver')
    expect(containerOf(deliver).volumeMounts).toContainEqual(MOUNT)
    expect(deliver.spec.template.metadata).toMatchObject({ annotations: { a: 'all', b: 'own' } })
    expect(found('Deployment', 'settle').spec.template.metadata)
      .toMatchObject({ annotations: { a: 'all', b: 'all' } })
  })

  it.each([
    ...['VAULT_TOKEN', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN']
      .map(name => [name, `rootKeys.env.${name} is a secret`]),
    ['NODE_OPTIONS', "'NODE_OPTIONS' does not match pattern"],
  ])('refuses %s among its values, and says so', async (name, words) => {
    const { code, output } = await helm('template',
      [...minimal, '--set', `rootKeys.env.${name}=x`])
    expect(code).toBe(1)
    expect(output).toContain(words)
  })
})
