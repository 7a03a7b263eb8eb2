import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import type { Client, JobStatusResource } from '../../services/client/client.ts'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'
import { allTopics } from '../../services/runtime/platform/topics.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { runAudit } from '../support/audit.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { seededRandom } from '../support/random.ts'
import { eventually } from '../support/eventually.ts'
import { sumOf } from '../support/metrics.ts'
import { startRecovering, RECOVERING_STAGES } from '../support/recovery/recovering.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { messageMacOf } from '../support/keys/signed.ts'
import { parseCsv } from '../support/stacks/environment.ts'
import { createAdversary, signedByAdversary, type Sent } from './adversary.ts'
import { flipped, pick, type Random } from './mutations.ts'

const FORGERIES = Number(process.env['FORGERIES'] ?? 300)
const SEED = Number(process.env['ATTACK_SEED'] ?? 1)
const AT_ONCE = 30
const ROWS = 150

const receiver = await startReceiver()

const environment = closeAfterAll(await startRecovering([...RECOVERING_STAGES, 'deliver']))
const adversary = closeAfterAll(await createAdversary(environment.env))

/** What an adversary makes of a message that it has seen, and of another one. */
type Forgery = (seen: RawMessage, other: RawMessage, random: Random) => Promise<Sent> | Sent

const FORGERIES_OF: Readonly<Record<string, Forgery>> = {
  flipped: (seen, _other, random) => ({ ...seen, value: flipped(seen.value, random) }),
  garbage: seen => ({ ...seen, value: randomBytes(100) }),
  emptied: seen => ({ ...seen, value: null }),
  swapped: (seen, other) => ({ ...seen, value: other.value }),
  elsewhere: (seen, other) => ({ ...seen, topic: other.topic }),
  relabelled: (seen, other) =>
    ({ ...seen, headers: { ...other.headers, mac: seen.headers['mac'] ?? '' } }),
  rekeyed: (seen, other) => ({ ...seen, key: other.key, headers: { ...seen.headers, note: '1' } }),
  unsigned: ({ headers: { mac: _, ...headers }, ...seen }) => ({ ...seen, headers }),
  signed: seen => signedByAdversary({ ...seen, value: seen.value ?? Buffer.alloc(0) }),
  richer: seen => adversary.changed(seen, value => Object.fromEntries(Object.entries(value)
    .map(([name, field]) => [name, typeof field === 'number' ? field + 1 : field]))),
}

/** Exactly what a service sent, repeated, to any partition: the only forgery that is accepted. */
const copied = (seen: RawMessage, random: Random): Sent =>
  ({ ...seen, partition: Math.floor(random() * 2) })

/** What a result file says of rows, whenever and by whatever they were checked. */
async function verdictsOf (client: Client, id: string) {
  return parseCsv(await client.results(id))
    .map(({ row, input, status, reason }) => ({ row, input, status, reason }))
}

/** What may not differ between two jobs for the same rows. */
function tellingOf ({ id: _, ...job }: JobStatusResource) {
  return { ...job, createdAt: '', updatedAt: '', completedAt: '', resultUrl: '' }
}

async function send (random: Random, seen: readonly RawMessage[]): Promise<number> {
  const names = Object.keys(FORGERIES_OF)
  const forged = await Promise.all(Array.from({ length: AT_ONCE }, async () =>
    await FORGERIES_OF[pick(names, random)]!(pick(seen, random), pick(seen, random), random)))
  const copies = Array.from({ length: AT_ONCE / 3 }, () => copied(pick(seen, random), random))
  await adversary.send([...forged, ...copies])
  return forged.length
}

it(`${FORGERIES} forgeries and copies in all topics, seed ${SEED}, change nothing`, async () => {
  const random = seededRandom(SEED)
  const client = environment.client()
  const run = async (from: number) => {
    const { id } = await client.createJob({
      service: 'phone-validation',
      inputs: mixedPhones(ROWS, from),
      forceFresh: true,
      webhook_url: `http://127.0.0.1:${receiver.port}/${from}`,
    })
    const job = await client.waitForEnd(id)
    return { job, rows: await verdictsOf(client, id) }
  }
  const before = await run(0)
  const { isAuthentic } = messageMacOf({ ...environment.env })
  const topics = allTopics().map(({ name }) => name)
  let injected = 0
  const jobs: Awaited<ReturnType<typeof run>>[] = []
  while (injected < FORGERIES) {
    const seen = (await Promise.all(topics.map(adversary.capture))).flat().filter(isAuthentic)
    const running = [run(0), run(0)]
    injected += await send(random, seen)
    jobs.push(...await Promise.all(running))
  }
  for (const { job, rows } of jobs) {
    expect(rows).toEqual(before.rows)
    expect(tellingOf(job)).toEqual(tellingOf(before.job))
  }
  await environment.shipped()
  const balance = await client.balance()
  await environment.restart()
  await environment.unlocked()
  expect(await client.balance()).toEqual(balance)
  expect((await runAudit(environment.env, { only: [environment.tenant] })).breaches).toEqual([])
  // One event a job, however many copies of it there are in the topic of events.
  await receiver.until(jobs.length + 1)
  const ids = receiver.received.map(({ headers }) => headers['webhook-id'])
  expect(new Set(ids).size).toBe(jobs.length + 1)
  await eventually(async () => {
    expect(await sumOf(environment.services.list(), 'messages_forged_total')).toBeGreaterThan(0)
  })
  expect(await sumOf(environment.services.list(), 'stage_dead_letters_total')).toBe(0)
  const restarts = environment.services.list().map(service => service.restarts)
  expect(restarts).toEqual(restarts.map(() => 0))
})
