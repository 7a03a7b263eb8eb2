import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import { STAGES } from '../../services/topology.ts'
import { startCluster } from '../api-server/cluster.ts'
import { expectComplete, send } from '../containers/complete-jobs.ts'
import { openOwnEngine } from '../containers/open.ts'
import { PAUSE } from '../containers/stand-ins.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { commandsUnder } from '../support/guides/guide.ts'
import { root } from '../support/sources.ts'
import { loadImages } from './node.ts'

const PAGE = 'deploy/docs/deployment.md'
const STORES = 'deploy/helm/laptop-stores.yaml'
const FUNDS_MICROS = 1_000_000_000_000
/** For a minute or two, while a pod of the interface is replaced. */
const RETRIES = 60

type Pod = {
  readonly metadata: {
    readonly name: string
    readonly labels: Readonly<Record<string, string>>
    readonly deletionTimestamp?: string
  }
  readonly spec: { readonly containers: readonly { readonly image: string }[] }
  readonly status: {
    readonly phase: string
    readonly conditions: readonly { readonly type: string, readonly status: string }[]
    readonly containerStatuses: readonly {
      readonly restartCount: number
      readonly state: { readonly terminated?: { readonly exitCode: number } }
    }[]
  }
}

const port = await freePort()
const engine = await openOwnEngine({ ports: [port], say: console.log })
const cluster = closeAfterAll(await startCluster({ engine, port }))
const stores = readFileSync(join(root, STORES), 'utf8').matchAll(/^ +image: (\S+)$/gm)
await loadImages(engine, [PAUSE, ...[...stores].map(([, image = '']) => image)])

let client: Client
let org: string
let address: string
let chargedMicros = 0

const pods = async () =>
  (await cluster.get<{ readonly items: readonly Pod[] }>('-n', 'jobs', 'pods')).items

/** Pods of services and stores, which run until they are replaced. */
const running = async () => (await pods()).filter(({ metadata, status: { phase } }) =>
  metadata.deletionTimestamp === undefined && phase !== 'Succeeded')

/** The commands of the guide by which operators run others. */
const COMMANDS = commandsUnder('The first customer', PAGE, 'kubectl -n jobs create job')

/** A command of operators in a pod, with its result. */
const admin = async <T>(words: string) => JSON.parse(
  await cluster.shell(String(COMMANDS[2]).replace(/(?<=--json ).+/, words))) as T

/** Sends a job, and expects it to end as it should and to cost something. */
async function runJob (): Promise<void> {
  const job = await expectComplete(client, await send(client))
  expect(job.chargedMicros).toBeGreaterThan(0)
  chargedMicros += job.chargedMicros
}

/** Runs a job after the other until this has happened, and expects each to end as it should. */
async function expectCompleteDespite (event: () => Promise<void>): Promise<void> {
  const end = new AbortController()
  const jobs = (async () => {
    do await runJob()
    while (!end.signal.aborted)
  })()
  await event().finally(() => end.abort())
  await jobs
}

const expectAllReady = () => eventually(async () => {
  const notReady = (await running()).filter(({ status: { conditions = [] } }) =>
    !conditions.some(({ type, status }) => type === 'Ready' && status === 'True'))
  expect(notReady.map(({ metadata: { name } }) => name)).toEqual([])
})

describe('the pods of a laptop cluster', () => {
  it('become ready by the commands of the guide', async () => {
    for (const line of commandsUnder('A laptop cluster', PAGE, 'kubectl create namespace')) {
      const [build, image] = line.split(' && kind load docker-image ')
      if (image !== undefined) {
        await engine.run(['sh', '-c', String(build)])
        await loadImages(engine, [image])
      } else if (line.includes('port-forward')) {
        address = await cluster.forward(line)
      } else {
        await cluster.shell(line)
      }
    }
    await expectAllReady()
    const all = await pods()
    const stages = all.map(({ metadata: { labels } }) => labels['verification-jobs/stage'])
    expect(stages).toEqual(expect.arrayContaining([...STAGES, 'page']))
    expect(all.filter(({ status: { containerStatuses } }) =>
      containerStatuses.some(({ restartCount }) => restartCount > 0))).toEqual([])
  })

  it('verify the rows of a job', async () => {
    for (const command of COMMANDS.slice(0, 2)) await cluster.shell(command)
    org = (await admin<{ id: string }>('org create --name Test')).id
    await admin(`topup --org ${org} --usd ${FUNDS_MICROS / 1_000_000} --id payment-1`)
    const { secret } = await admin<{ secret: string }>(`key create --org ${org}`)
    client = createClient({
      baseUrl: `${address}/api/v1`,
      apiKey: secret,
      retries: RETRIES,
      fetch: (url, { headers, ...rest } = {}) => fetch(url, {
        ...rest, headers: { ...headers as object, 'x-forwarded-proto': 'https' },
      }),
    })
    await runJob()
  })

  it('pass the test of the release', async () => {
    const { secret } = await admin<{ secret: string }>(`key create --org ${org} --mode test`)
    const patch = JSON.stringify({ stringData: { API_KEY: secret } })
    await cluster.shell(`kubectl -n jobs patch secret verification-jobs --patch '${patch}'`)
    await cluster.shell(String(COMMANDS[3]))
    await cluster.shell('helm -n jobs test vj')
  })

  it('complete jobs although those of settle are killed', async () => {
    const of = async () => (await running())
      .filter(({ metadata: { labels } }) => labels['verification-jobs/stage'] === 'settle')
      .map(({ metadata: { name } }) => name)
    const before = await of()
    await expectCompleteDespite(async () => {
      await cluster.shell('kubectl -n jobs delete pod --force --grace-period=0 ' +
        '-l verification-jobs/stage=settle')
      await expectAllReady()
    })
    const after = await of()
    expect(after).toHaveLength(before.length)
    expect(after).not.toEqual(before)
  })

  it('complete jobs although an upgrade replaces them all', async () => {
    const names = async () => (await running())
      .filter(({ metadata: { labels } }) => 'verification-jobs/stage' in labels)
      .map(({ metadata: { name } }) => name)
    const before = await names()
    await expectCompleteDespite(async () => {
      await cluster.shell('helm -n jobs upgrade vj deploy/helm/verification-jobs --reuse-values ' +
        '--set config.LOG_LEVEL=debug --wait --timeout 10m')
    })
    await eventually(async () => {
      const after = await names()
      expect(after).toHaveLength(before.length)
      expect(after.filter(name => before.includes(name))).toEqual([])
    })
  })

  it('have charged what the jobs say, and hold no breach of what the audit checks', async () => {
    const { balanceMicros, reservedMicros } = await client.balance()
    expect({ balanceMicros, reservedMicros })
      .toEqual({ balanceMicros: FUNDS_MICROS - chargedMicros, reservedMicros: 0 })
    await cluster.shell(
      'kubectl -n jobs create job audit --from=cronjob/vj-verification-jobs-audit')
    await cluster.shell('kubectl -n jobs wait --for=condition=Complete job/audit --timeout=5m')
  })
})
