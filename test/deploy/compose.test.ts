import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readVersion } from '../../deploy/local/parts.ts'
import { LIMITS_RIGHTS } from '../../deploy/local/access.ts'
import { loadConfig } from '../../services/runtime/platform/config.ts'
import { normalizeConfig } from '../../services/normalize/config.ts'
import { STAGES } from '../../services/topology.ts'
import {
  composeModel, envOf, newSecrets, writeSecrets, type Service,
} from '../support/deploy/compose.ts'
import {
  servedBy, settingFaults, wantedByTopology, type Deployed,
} from '../support/deploy/deployed.ts'
import { root } from '../support/sources.ts'
import { yamlOf } from '../support/deploy/yaml.ts'
import { VENDOR_KEYS } from '../../services/jobs/checks.ts'
import { newFolder } from '../support/folder.ts'

type DataSources = {
  readonly datasources: readonly { readonly type: string, readonly url: string }[]
}

type Scraping = {
  readonly scrape_configs: readonly {
    readonly dns_sd_configs?: readonly {
      readonly names: readonly string[]
      readonly port: number
    }[]
  }[]
}

const DIGEST = /^[a-z/-]+:[\w.-]+@sha256:[0-9a-f]{64}$/

const ours = (): readonly [string, Service][] =>
  Object.entries(model.services)
    .filter(([, { image }]) => image === model.services.provision?.image)

/** Programs of the image, commands run by hand left out. */
const programs = (): readonly Deployed[] => ours().filter(([name]) => name !== 'admin')
  .map(([name, { command, environment }]) =>
    ({ name, program: command?.[0] ?? '', env: environment ?? {} }))

/** The metrics endpoints of the stages. */
const stagePorts = () => ours().filter(([name]) => wantedByTopology().stages.includes(name))
  .map(([name, { environment }]) => `${name}:${environment.PORT_METRICS}`)

const folder = newFolder('verification-jobs-compose-')
const file = join(folder, 'secrets.env')
writeSecrets(file)
const secrets = envOf(readFileSync(file, 'utf8'))
const model = composeModel(secrets)

describe('compose.yaml', () => {
  it('runs every stage and reads every topic in every consumer group', () => {
    expect(servedBy(programs())).toEqual(wantedByTopology())
    expect(programs().map(({ program }) => program)).toContain('services/page/main.ts')
  })

  it('gives every program settings it reads, and all that it requires', async () => {
    expect(settingFaults(programs())).toEqual([])
  })

  it('gives secrets only to what reads them', () => {
    const holders = (part: string) => Object.entries(model.services)
      .filter(([, { environment }]) => JSON.stringify(environment ?? {}).includes(part))
      .map(([name]) => name)
    expect(holders('CACHE_SECRETS')).toEqual(['normalize', 'ledger'])
    for (const part of ['HTTP_PROVIDERS', ...VENDOR_KEYS.map(({ setting }) => setting)]) {
      expect([part, ...holders(part)]).toEqual([part, 'verify'])
    }
    expect(holders('GF_SECURITY_ADMIN_PASSWORD')).toEqual(['grafana'])
  })

  it('has each stage sign in at the broker by its own name and password', () => {
    const users = Object.fromEntries(ours().map(([name, { environment: env }]) =>
      [name, [env.KAFKA_SASL_USERNAME, env.KAFKA_SASL_PASSWORD]]))
    const known = (user: string) => [user, secrets[`KAFKA_PASSWORD_${user.toUpperCase()}`]]
    expect(users).toEqual({
      ...Object.fromEntries(STAGES.map(stage => [stage, known(stage)])),
      page: [undefined, undefined],
      provision: known('admin'),
      admin: known('admin'),
    })
    const { environment } = model.services.kafka as Service
    const login = environment.KAFKA_LISTENER_NAME_SERVICES_PLAIN_SASL_JAAS_CONFIG ?? ''
    expect(Object.fromEntries([...login.matchAll(/ user_(\w+)="([\w-]+)"/g)]
      .map(([, user = '', password]) => [user, password])))
      .toEqual(Object.fromEntries(['admin', 'registry', ...STAGES].map(known)))
    expect(environment.KAFKA_SUPER_USERS?.split(';'))
      .toEqual(['User:ANONYMOUS', 'User:admin', 'User:registry'])
    expect(model.services.registry?.environment.REGISTRY_KAFKA_COMMON_SASL_JAAS_CONFIG)
      .toContain(`username="registry" password="${known('registry')[1]}";`)
  })

  it('allows only the broker itself to connect without a password', () => {
    const { environment: env } = model.services.kafka as Service
    const open = (env.KAFKA_LISTENER_SECURITY_PROTOCOL_MAP ?? '').split(',')
      .filter(entry => !entry.endsWith(':SASL_PLAINTEXT')).map(entry => entry.split(':')[0])
    const listeners = (env.KAFKA_LISTENERS ?? '').split(',').map(text => text.split('://'))
    expect(listeners.filter(([name]) => open.includes(name)).map(([, at]) => at))
      .toEqual(['127.0.0.1:9093', '127.0.0.1:9094'])
    expect(listeners.map(([name]) => name)).toEqual(['SERVICES', 'CONTROLLER', 'BROKER'])
  })

  it('provisions before any service starts, when every store answers', () => {
    const { provision } = model.services
    expect(provision?.command).toEqual(['deploy/provision.ts'])
    expect(Object.entries(provision?.depends_on ?? {}).map(([name, { condition }]) =>
      `${name} ${condition}`).toSorted()).toEqual([
      'clickhouse service_healthy', 'kafka service_healthy', 'redis-cache service_healthy',
      'redis-state service_healthy', 'registry service_healthy',
    ])
    for (const [name, { depends_on: dependsOn }] of ours()) {
      if (name === 'provision' || name === 'admin') continue
      expect(dependsOn?.provision?.condition).toBe('service_completed_successfully')
    }
  })

  it('watches the gateway through the sites of its own configuration', () => {
    const { healthcheck, command, volumes } = model.services.gateway as Service
    const sites = readFileSync(join(root, 'deploy/gateway/Caddyfile'), 'utf8')
      .match(/^https:\S+/gm) ?? []
    expect(sites).toEqual(['https://localhost:8443', 'https://localhost:8444'])
    for (const site of sites) expect(healthcheck?.test?.join(' ')).toContain(`${site}/`)
    expect(command).toContain('--watch')
    expect(volumes.map(({ source }) => source)).toContain(join(root, 'deploy/gateway'))
  })

  it('runs commands while a store is away, and starts nothing for them', () => {
    expect(model.services.admin?.depends_on).toEqual({})
  })

  it('is open to this machine only, and bounded', () => {
    for (const [name, service] of Object.entries(model.services)) {
      const { ports = [], cap_drop: dropped, mem_limit: memory, security_opt: options } = service
      expect([name, ...ports.map(port => port.host_ip)])
        .toEqual([name, ...ports.map(() => '127.0.0.1')])
      expect([name, dropped, options]).toEqual([name, ['ALL'], ['no-new-privileges:true']])
      expect(Number(memory)).toBeGreaterThan(0)
    }
    expect(ours().filter(([, service]) => service.read_only !== true)).toEqual([])
  })

  it('lets only webhooks and checks out', () => {
    const open = Object.keys(model.networks).filter(name => model.networks[name]?.internal !== true)
    expect(open.toSorted()).toEqual(['outside', 'public'])
    const leaving = ours().filter(([, { networks }]) => open.some(name => name in networks))
    expect(leaving.map(([name]) => name).toSorted()).toEqual(['deliver', 'verify'])
  })

  it('keeps state on disk before each answer, and lets the cache forget', () => {
    const command = (name: string) => model.services[name]?.command?.join(' ').replace(/\s+/g, ' ')
    expect(command('redis-state')).toContain("--save '' --appendonly yes \\ --appendfsync always")
    expect(command('redis-state')).toContain('--maxmemory-policy noeviction')
    expect(command('redis-cache')).toContain('--maxmemory-policy allkeys-lru')
  })

  it('lets ingest reach the limits of requests at the cache, and nothing else', () => {
    const { REDIS_CACHE_PASSWORD: all, REDIS_CACHE_PASSWORD_INGEST: own } = secrets
    const addressOf = (name: string) => model.services[name]?.environment.REDIS_CACHE_URL
    expect(addressOf('ingest')).toBe(`redis://ingest:${own}@redis-cache:6379`)
    expect(addressOf('lookup')).toBe(`redis://:${all}@redis-cache:6379`)
    const { command, environment } = model.services['redis-cache'] as Service
    expect(environment.REDIS_PASSWORD_INGEST).toBe(own)
    expect(command?.join(' ')).toContain(`limits='${LIMITS_RIGHTS}'`)
  })

  it('runs the versions that are tested here', () => {
    expect(model.services.kafka?.image).toContain(`apache/kafka:${readVersion('kafka')}@`)
    expect(model.services.registry?.image)
      .toBe(`apicurio/apicurio-registry-kafkasql:${readVersion('registry')}`)
    const containers = readFileSync(join(root, 'deploy/local/containers.ts'), 'utf8')
    for (const name of ['kafka', 'redis-state', 'redis-cache', 'clickhouse']) {
      const [version, digest] = model.services[name]?.image.split('@') ?? []
      expect(containers).toContain(`'${version}' +\n  '@${digest}'`)
    }
  })

  it('names images of others by version and digest', () => {
    const foreign = Object.entries(model.services)
      .filter(([, { image }]) => image !== model.services.provision?.image)
    const unpinned = foreign.filter(([, { image }]) => !DIGEST.test(image))
    // No source that can be checked has the digest of this one.
    expect(unpinned.map(([name]) => name)).toEqual(['registry'])
    expect(foreign.length).toBeGreaterThan(unpinned.length)
  })

  it('is scraped by its Prometheus, every stage and the page', () => {
    const text = readFileSync(join(root, 'deploy/prometheus/prometheus.yml'), 'utf8')
    const [scraping] = yamlOf(text) as readonly [Scraping]
    const found = scraping.scrape_configs.flatMap(({ dns_sd_configs: places = [] }) => places)
      .flatMap(({ names, port }) => names.map(name => `${name}:${port}`))
    expect(found.toSorted()).toEqual([...stagePorts(), 'page:9464'].toSorted())
  })

  it('configures the page with the metrics of every stage', () => {
    const { METRICS_TARGETS: targets = '' } = model.services.page?.environment ?? {}
    expect(targets.split(',').toSorted())
      .toEqual(stagePorts().map(place => `http://${place}/metrics`).toSorted())
    expect(model.services.gateway?.depends_on?.page?.condition).toBe('service_healthy')
  })

  it('keeps traces of every service only where enabled', () => {
    const { services } = model
    const optional = Object.keys(services)
      .filter(name => services[name]?.profiles?.[0] === 'traces')
    expect(optional).toEqual(['jaeger'])
    expect(services.jaeger?.image).toMatch(/^jaegertracing\/jaeger:\d+\.\d+\.\d+@/)
    const running = ours().filter(([name]) => !['provision', 'admin'].includes(name))
    expect(running.map(([, { environment }]) => environment.OTEL_EXPORTER_OTLP_ENDPOINT))
      .toEqual(running.map(() => ''))
    const traced = composeModel({ ...secrets, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://jaeger:4318' })
    for (const [name] of running) {
      const { environment, networks } = traced.services[name] as Service
      expect(environment.OTEL_EXPORTER_OTLP_ENDPOINT).toBe('http://jaeger:4318')
      expect(Object.keys(networks).some(one => one in (services.jaeger?.networks ?? {}))).toBe(true)
    }
  })

  it('shows Grafana where metrics and traces are', () => {
    const { environment, networks } = model.services.grafana as Service
    const places = ['prometheus', 'jaeger'].map(name => {
      const path = `deploy/grafana/provisioning/datasources/${name}.yml`
      const [{ datasources }] =
        yamlOf(readFileSync(join(root, path), 'utf8')) as readonly [DataSources]
      return datasources.map(({ type, url }) =>
        [type, url.replace(/\$\{(\w+)\}/, (_, key: string) => environment[key] ?? '')])
    })
    expect(places.flat()).toEqual([
      ['prometheus', 'http://prometheus:9090'], ['jaeger', 'http://jaeger:16686'],
    ])
    for (const [name = ''] of places.flat()) {
      expect(Object.keys(model.services[name]?.networks ?? {}))
        .toEqual(expect.arrayContaining(Object.keys(networks)))
    }
  })

  it('mounts files that are there', () => {
    const mounted = Object.values(model.services).flatMap(({ volumes = [] }) => volumes)
      .filter(({ type }) => type === 'bind').map(({ source }) => source)
    expect(mounted.length).toBe(6)
    for (const source of mounted) expect(statSync(source).isDirectory()).toBe(true)
  })
})

describe('the secrets of compose.yaml', () => {
  it('are read by services as they are written, and by their owner only', () => {
    const { environment } = model.services.normalize as Service
    expect(loadConfig(normalizeConfig, environment)).toMatchObject({ RESULTS_ROOT_KEY_ACTIVE: '1' })
    expect(statSync(join(folder, 'secrets.env')).mode & 0o777).toBe(0o600)
  })

  it('are never replaced, and never the same', () => {
    const path = join(folder, 'secrets.env')
    const before = readFileSync(path, 'utf8')
    expect(writeSecrets(path)).toContain('has all secrets already')
    expect(readFileSync(path, 'utf8')).toBe(before)
    expect(newSecrets().RESULTS_ROOT_KEYS).not.toBe(secrets.RESULTS_ROOT_KEYS)
  })

  it('are added where an earlier release made a file without them', () => {
    const path = join(folder, 'earlier.env')
    writeFileSync(path, "RESULTS_ROOT_KEY_ACTIVE=7\nRESULTS_ROOT_KEYS='{}'")
    const added = Object.keys(secrets).filter(name => !/^RESULTS_/.test(name))
    expect(writeSecrets(path)).toContain(`new secrets (${added.join(', ')})`)
    const found = envOf(readFileSync(path, 'utf8'))
    expect(found).toMatchObject({ RESULTS_ROOT_KEY_ACTIVE: '7', RESULTS_ROOT_KEYS: '{}' })
    expect(Object.keys(found).toSorted()).toEqual(Object.keys(secrets).toSorted())
  })
})
