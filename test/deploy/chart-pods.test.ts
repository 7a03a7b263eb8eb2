import { describe, expect, it } from 'vitest'
import { STAGES } from '../../services/topology.ts'
import {
  containerOf, envOf, faultsOf, helm, isOfKubernetes, isProgram, json, minimal, podOf, render,
  type Manifest,
} from '../support/deploy/chart.ts'
import { configFaults, programOf, readChartPrograms } from '../support/deploy/deployed.ts'

const PROVISION = 'deploy/provision.ts'
const AUDIT = 'services/admin/main.ts audit --full'
const ADMIN = 'services/admin/main.ts'
/** Volumes with the certificate of a client. */
const STORES = ['kafka', 'redis']
const AFFINITY = {
  podAntiAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: [
      { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels: { app: 'noisy' } } },
    ],
  },
}
/** What every pod takes from `defaults`, by the place of its template that it comes to. */
const SHARED = {
  podLabels: { 'azure.workload.identity/use': 'true' },
  podAnnotations: { 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true' },
  nodeSelector: { 'kubernetes.io/arch': 'arm64' },
  tolerations: [{ key: 'spot', operator: 'Exists' }],
  affinity: AFFINITY,
  priorityClassName: 'high',
  env: [{ name: 'TZ', value: 'UTC' }],
  envFrom: [{ configMapRef: { name: 'proxy' } }],
  volumes: [{ name: 'more', emptyDir: {} }],
  volumeMounts: [{ name: 'more', mountPath: '/more' }],
}

const podsOf = (manifests: readonly Manifest[]) => manifests.filter(isProgram)
const named = (manifests: readonly Manifest[], name: string) =>
  podsOf(manifests).find(({ metadata }) => metadata.name.endsWith(`-${name}`)) as Manifest

describe('pods of the chart', () => {
  it('take labels, places, variables and volumes from defaults, tasks as well', async () => {
    const manifests = await render([...minimal, ...json('defaults', SHARED)])
    expect(await faultsOf(manifests.filter(isOfKubernetes))).toEqual([])
    const { podLabels, podAnnotations, env, envFrom, volumes, volumeMounts, ...places } = SHARED
    const pods = podsOf(manifests)
    expect(pods.map(programOf)).toContain(PROVISION)
    for (const template of pods.map(podOf)) {
      expect(template).toMatchObject({
        metadata: { labels: podLabels, annotations: podAnnotations }, spec: places,
      })
      expect(template.spec.containers[0]).toMatchObject({
        envFrom,
        env: expect.arrayContaining(env),
        volumeMounts: expect.arrayContaining(volumeMounts),
      })
      expect(template.spec.volumes).toEqual(expect.arrayContaining(volumes))
    }
  })

  it('take their own values before those of defaults', async () => {
    const manifests = await render([
      ...minimal, ...json('defaults', SHARED),
      '--set', 'stages.verify.priorityClassName=low', '--set', 'provision.podLabels.own=yes',
    ])
    const specOf = (name: string) => podOf(named(manifests, name))
    expect(specOf('verify').spec).toMatchObject({ priorityClassName: 'low' })
    expect(specOf('settle').spec).toMatchObject({ priorityClassName: 'high' })
    expect(specOf('provision').metadata.labels).toMatchObject({ ...SHARED.podLabels, own: 'yes' })
    expect(specOf('settle').metadata.labels).not.toHaveProperty('own')
  })

  it('take no setting of a program as a further variable', async () => {
    const { code, output } = await helm('template',
      [...minimal, ...json('stages.verify.env', [{ name: 'LANES', value: 'bulk' }])])
    expect([code, output]).toEqual([1, expect.stringContaining('env: LANES is a setting of')])
  })
})

describe('sign-in of pods at the brokers', () => {
  const SCRAM = [...minimal, '--set', 'config.KAFKA_TLS=true',
    '--set', 'config.KAFKA_SASL_MECHANISM=scram-sha-512']
  const isPassword = (key: string) => key.startsWith('KAFKA_PASSWORD_')
  const signIn = (manifests: readonly Manifest[]) => podsOf(manifests)
    .map(pod => [programOf(pod), envOf(pod)] as const)
    .filter(([, env]) => 'KAFKA_BROKERS' in env)
    .map(([program, env]) => [program, env['KAFKA_SASL_USERNAME'], env['KAFKA_SASL_PASSWORD']])
  const programs = [
    ...STAGES.map(stage => `services/${stage}/main.ts`), PROVISION, PROVISION, AUDIT, ADMIN,
  ]

  it('is by a user of each stage, and admin for tasks', async () => {
    const manifests = await render(SCRAM)
    expect(await configFaults(podsOf(manifests), isPassword)).toEqual([])
    expect(signIn(manifests).toSorted()).toEqual(programs.map(program => {
      const isTask = [PROVISION, AUDIT, ADMIN].includes(program)
      const user = isTask ? 'admin' : program.split('/')[1] ?? ''
      return [program, user, `KAFKA_PASSWORD_${user.toUpperCase()}`]
    }).toSorted())
  })

  it('is by one user for all where config names it, whatever characters it has', async () => {
    const user = 'jobs@project.iam.example.com'
    const manifests = await render([...SCRAM, '--set', `config.KAFKA_SASL_USERNAME=${user}`])
    expect(await configFaults(podsOf(manifests), isPassword)).toEqual([])
    expect(signIn(manifests).toSorted()).toEqual(programs.map(program =>
      [program, user, 'KAFKA_PASSWORD_JOBS_PROJECT_IAM_EXAMPLE_COM']).toSorted())
  })

  it('is by a user of its own where config of a stage or task names it', async () => {
    const manifests = await render([...SCRAM, '--set', 'config.KAFKA_SASL_USERNAME=all',
      '--set', 'provision.config.KAFKA_SASL_USERNAME=owner'])
    expect(signIn(manifests)).toContainEqual([PROVISION, 'owner', 'KAFKA_PASSWORD_OWNER'])
    expect(signIn(manifests)).toContainEqual(
      ['services/settle/main.ts', 'all', 'KAFKA_PASSWORD_ALL'])
  })

  it('is by the role of each account at MSK, without a user', async () => {
    const manifests = await render([...minimal, '--set', 'config.KAFKA_TLS=true',
      '--set', 'config.KAFKA_SASL_MECHANISM=aws-msk-iam',
      '--set', 'config.KAFKA_AWS_REGION=eu-central-1',
      ...json('defaults.serviceAccountAnnotations', { 'eks.amazonaws.com/role-arn': 'arn:a' })])
    // With the passwords of another mechanism still in the secret.
    expect(await configFaults(podsOf(manifests), isPassword)).toEqual([])
    expect(signIn(manifests).toSorted())
      .toEqual(programs.map(program => [program, undefined, undefined]).toSorted())
    const accounts = manifests.filter(({ kind }) => kind === 'ServiceAccount')
    const used = new Set(podsOf(manifests).map(pod => podOf(pod).spec.serviceAccountName))
    expect(new Set(accounts.map(({ metadata: { name } }) => name))).toEqual(used)
    for (const { metadata: { annotations } } of accounts) {
      expect(annotations).toMatchObject({ 'eks.amazonaws.com/role-arn': 'arn:a' })
    }
  })
})

describe.each([
  ['brokers', 'kafka', ['services/page/main.ts', 'deploy/smoke.ts'], { KAFKA_TLS: 'true' }],
  ['both Redis', 'redis', [PROVISION, 'deploy/smoke.ts'], {}],
])('certificates by which %s know pods', (_, store, strangers, others) => {
  it('are mounted as a whole folder, so that a new one is read', async () => {
    const value = `${store}Certificate`
    const manifests = await render([...minimal, '--set', `defaults.${value}.secret=all`,
      '--set', `stages.verify.${value}.secret=own`,
      '--set', `stages.verify.${value}.certKey=ACCESS_CERT`])
    expect(await faultsOf(manifests.filter(isOfKubernetes))).toEqual([])
    expect(await configFaults(podsOf(manifests))).toEqual([])
    const folder = `/etc/verification-jobs/${store}`
    for (const pod of podsOf(manifests)) {
      const { volumes, containers: [{ volumeMounts }] } = podOf(pod).spec
      const program = programOf(pod)
      const isClient = !strangers.includes(program)
      const [secretName, certificate] =
        program === 'services/verify/main.ts' ? ['own', 'ACCESS_CERT'] : ['all', 'tls.crt']
      const items = [{ key: certificate, path: 'tls.crt' }, { key: 'tls.key', path: 'tls.key' }]
      const files = isClient ? [{ name: store, secret: { secretName, items } }] : []
      expect([program, (volumes as readonly { readonly name: string }[])
        .filter(({ name }) => STORES.includes(name))]).toEqual([program, files])
      expect(volumeMounts.filter(({ name }) => STORES.includes(name)))
        .toEqual(isClient ? [{ name: store, mountPath: folder, readOnly: true }] : [])
      const settings = Object.entries(envOf(pod)).filter(([name]) =>
        name === 'KAFKA_TLS' || /^(KAFKA|REDIS)_TLS_(CERT|KEY)_FILE$/.test(name))
      expect(Object.fromEntries(settings)).toEqual(isClient
        ? {
            [`${store.toUpperCase()}_TLS_CERT_FILE`]: `${folder}/tls.crt`,
            [`${store.toUpperCase()}_TLS_KEY_FILE`]: `${folder}/tls.key`,
            ...others,
          }
        : {})
    }
  })
})

it('the pod for commands of operators ' +
  'waits in place of the program, and starts by no schedule; others do', async () => {
  const jobs = (await render()).filter(({ kind }) => kind === 'CronJob')
  const waits = ['node', '--eval', expect.stringContaining('3_600_000'), '--']
  const of = (name: string) => jobs.find(({ metadata }) => metadata.name.endsWith(`-${name}`))
  expect(of('admin')?.spec).toMatchObject({ suspend: true })
  expect(containerOf(of('admin') as Manifest)).toMatchObject({ args: [ADMIN], command: waits })
  expect(of('audit')?.spec).not.toHaveProperty('suspend')
  expect(containerOf(of('audit') as Manifest)).not.toHaveProperty('command')
})

describe('backups of ClickHouse', () => {
  const backupOf = (manifests: readonly Manifest[]) =>
    manifests.filter(({ metadata }) => metadata.name === 'vj-verification-jobs-backup')
  const on = ['--set', 'backup.enabled=true', '--set', 'backup.schedule=5 3 * * *',
    '--set', 'backup.secretKeys.CLICKHOUSE_URL=CLICKHOUSE_URL_BACKUP']

  it('run on their schedule where they are turned on, with the address and the place alone',
    async () => {
      const manifests = await render([...minimal, ...on])
      expect(await faultsOf(manifests.filter(isOfKubernetes))).toEqual([])
      const [job] = backupOf(manifests).filter(({ kind }) => kind === 'CronJob')
      expect(job?.spec).toMatchObject({ schedule: '5 3 * * *', concurrencyPolicy: 'Forbid' })
      expect(await configFaults([job as Manifest])).toEqual([])
      expect(programOf(job as Manifest)).toBe('services/admin/main.ts backup')
      expect(envOf(job as Manifest))
        .toEqual({ BACKUP_TO: 'BACKUP_TO', CLICKHOUSE_URL: 'CLICKHOUSE_URL_BACKUP' })
    })

  it('leave nothing in the cluster while they are off', async () => {
    expect(backupOf(await render())).toEqual([])
  })

  it('need their place in a secret that the chart makes, only when they are on', async () => {
    const made = [...minimal, '--set', 'secrets.existingSecret=', '--set', 'secrets.create=true',
      ...Object.values(readChartPrograms()).flatMap(({ secrets }) => Object.keys(secrets))
        .filter(key => key !== 'BACKUP_TO').concat('REDIS_CACHE_URL_INGEST')
        .flatMap(key => ['--set', `secrets.values.${key}=secret`])]
    expect((await helm('template', made)).code).toBe(0)
    const { code, output } = await helm('template', [...made, ...on])
    expect([code, output])
      .toEqual([1, expect.stringContaining('secrets.values.BACKUP_TO is missing')])
  })
})

it('passwords in files ' +
  'are mounted as a folder to each pod that reads them, by the key of its user', async () => {
  const files = [
    'REDIS_STATE_PASSWORD', 'REDIS_CACHE_PASSWORD', 'CLICKHOUSE_PASSWORD', 'KAFKA_SASL_PASSWORD',
  ]
  const manifests = await render([...minimal, '--set', 'config.KAFKA_TLS=true',
    '--set', 'config.KAFKA_SASL_MECHANISM=scram-sha-512',
    '--set', `secrets.passwordFiles={${files.join()}}`])
  expect(await faultsOf(manifests.filter(isOfKubernetes))).toEqual([])
  expect(await configFaults(podsOf(manifests), key => key.startsWith('KAFKA_PASSWORD_')))
    .toEqual([])
  const programs = Object.values(readChartPrograms())
  for (const pod of podsOf(manifests)) {
    const program = programOf(pod)
    const { settings = {} } = programs.find(one => one.program === program) ?? {}
    const [, stage = ''] = /services\/(\w+)\/main\.ts$/.exec(program) ?? []
    const wanted = files.filter(file => `${file}_FILE` in settings).map(path => ({
      path,
      key: {
        KAFKA_SASL_PASSWORD: `KAFKA_PASSWORD_${(stage || 'admin').toUpperCase()}`,
        REDIS_CACHE_PASSWORD: stage === 'ingest' ? `${path}_INGEST` : path,
      }[path] ?? path,
    }))
    const { volumes, containers: [{ volumeMounts }] } = podOf(pod).spec
    const [volume] = (volumes as readonly { readonly name: string, readonly secret?: object }[])
      .filter(({ name }) => name === 'passwords')
    expect([program, volume?.secret]).toEqual([program, wanted.length === 0
      ? undefined
      : { secretName: 'verification-jobs', items: wanted }])
    const folder = volumeMounts.find(({ name }) => name === 'passwords')?.mountPath
    expect(wanted.map(({ path }) => envOf(pod)[`${path}_FILE`]))
      .toEqual(wanted.map(({ path }) => `${folder}/${path}`))
  }
})
