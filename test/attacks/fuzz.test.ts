import { Pool } from 'undici'
import { afterAll, expect, it } from 'vitest'
import { createClient, type Client } from '../../services/client/client.ts'
import { ERRORS, type ErrorCode } from '../../services/ingest/errors.ts'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'
import { allTopics, logicalTopic, partnerTopics } from '../../services/runtime/platform/topics.ts'
import { READING_STAGES, STAGES, topology, type TopicName } from '../../services/topology.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { seededRandom } from '../support/random.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { sumOf } from '../support/metrics.ts'
import { untilConsumed } from '../support/kafka/offsets.ts'
import { createTestPartner, feedContacts, type TestPartner } from '../support/feeds/partner.ts'
import { startRecovering } from '../support/recovery/recovering.ts'
import { messageMacOf } from '../support/keys/signed.ts'
import { breachesOf } from '../support/stacks/environment.ts'
import { createAdversary, type Sent } from './adversary.ts'
import { damaged, mutatedBody, pick, type Random } from './mutations.ts'
import { watchServices } from './watch.ts'

const CASES = Number(process.env['FUZZ_CASES'] ?? 400)
const SEED = Number(process.env['ATTACK_SEED'] ?? 1)
/** What a service may take, by the alert on its memory. */
const MAX_PEAK_MB = 700
const CONCURRENT_REQUESTS = 16
/**
 * Messages of a round for each topic. A consumer of two topics stops after 100 dead letters in a
 * row, by design; at the end of a round it has jobs that are well.
 */
const SIGNED_A_TOPIC = 40
const UNSIGNED_A_TOPIC = 60

const NO_LIMITS = {
  LIMIT_POST_BURST: '1000000',
  LIMIT_POST_SUSTAINED: '1000000',
  MAX_PREFLIGHTS: '1000',
  RETRY_DELAY_MS: '200',
  RETRY_DEADLINE_MS: '1000',
}

let watch: Awaited<ReturnType<typeof watchServices>>
const report: string[] = [`seed ${SEED}`]
const processes = () => environment.services.list().map(({ name, pid, restarts }) =>
  ({ name, pid, restarts }))

const environment = closeAfterAll(await startRecovering(STAGES, NO_LIMITS))
const adversary = closeAfterAll(await createAdversary(environment.env))
const pids = processes()
watch = await watchServices(environment.services.list)
afterAll(() => { console.log(report.join('\n')) })

async function expectServicesSound () {
  expect(processes()).toEqual(pids)
  const watched = await watch.end()
  watch = await watchServices(environment.services.list)
  for (const { name, peakMb, longestPauseSeconds } of watched) {
    report.push(`  ${name}: at most ${Math.round(peakMb)} MB, ` +
      `${longestPauseSeconds.toFixed(2)} s between two samples of the event loop`)
  }
  expect(watched.filter(({ peakMb }) => peakMb > MAX_PEAK_MB)).toEqual([])
}

const BODIES = [
  { service: 'phone-validation', inputs: ['+12127365000', '(212) 736-5001', 'call me'] },
  {
    service: 'phone-validation',
    inputs: ['020 7946 0958'],
    countryCode: 'GB',
    forceFresh: true,
    webhook_url: 'http://127.0.0.1:9/hook?a=1#b',
    metadata: { campaign: 'spring \u{1f33c}', 'a b': '\\"' },
  },
  { service: 'email-validation', inputs: ['"a b"@example.com', 'Ann <ann@müller.example>'] },
  { service: 'carrier-lookup', inputs: Array.from({ length: 40 }, (_, i) => `+4930${i}0002222`) },
].map(body => JSON.stringify(body))

/** `202`, or the code of a documented error; anything else is reported as it came. */
async function answerTo (pool: Pool, apiKey: string, body: Buffer): Promise<string> {
  const { statusCode, body: answer } = await pool.request({
    method: 'POST',
    path: '/api/v1/jobs',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body,
  })
  const text = await answer.text()
  if (statusCode === 202) return '202'
  const { code, message, request_id: id } = JSON.parse(text).error as Record<string, string>
  const [status] = ERRORS[code as ErrorCode] ?? []
  const isDocumented = status === statusCode && code !== 'internal' && message && id
  return isDocumented ? `${statusCode} ${code}` : `undocumented: ${statusCode} ${text}`
}

it(`${CASES} mutated bodies, seed ${SEED}, get a documented answer each`, async () => {
  const random = seededRandom(SEED)
  const pool = new Pool(new URL(environment.services.baseUrl).origin, {
    connections: CONCURRENT_REQUESTS,
  })
  const { live, test } = environment.demo.keys
  const answers = new Map<string, number>()
  let sent = 0
  const post = async () => {
    while (sent < CASES) {
      sent += 1
      const body = mutatedBody(BODIES, random)
      const answer = await answerTo(pool, sent % 2 === 0 ? live : test, body)
        .catch((cause: unknown) => {
          throw new Error(`no answer to ${body.toString('base64').slice(0, 4_000)}`, { cause })
        })
      answers.set(answer, (answers.get(answer) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT_REQUESTS }, post))
  await pool.close()
  report.push(`${CASES} bodies: ${JSON.stringify(Object.fromEntries(answers))}`)
  expect([...answers.keys()].filter(answer => answer.startsWith('undocumented'))).toEqual([])
  expect(answers.get('202')).toBeGreaterThan(0)
  await expectServicesSound()
  expect(await breachesOf(environment.env, environment.demo.orgId)).toEqual([])
})

/** A customer and a partner whose work continues while others' messages are mutated. */
type Customer = { readonly live: Client, readonly test: Client, readonly partner: TestPartner }

async function customerOf (keys: { readonly live: string, readonly test: string }) {
  const { baseUrl } = environment.services
  return {
    live: createClient({ baseUrl, apiKey: keys.live }),
    test: createClient({ baseUrl, apiKey: keys.test }),
    partner: await createTestPartner(environment.env, { usd: '100' }),
  }
}

/** A job for each consumer group that gets mutated messages, and a feed. */
async function runJobs ({ live, test, partner }: Customer, from: number): Promise<void> {
  const jobs = [
    { client: live, service: 'phone-validation', inputs: mixedPhones(20, from) },
    { client: live, service: 'phone-validation', inputs: mixedPhones(1_001, from) },
    { client: test, service: 'email-validation', inputs: ['ann@example.com', 'nobody'] },
    { client: test, service: 'phone-validation', inputs: ['+12125550005', '+12125550006'] },
  ]
  const contact = { input: `+1212736${5_000 + from % 1_000}`, reference: `c${from}` }
  const fed = feedContacts(partner, [{ ...contact, countryCode: undefined }])
  for (const status of await Promise.all(jobs.map(async ({ client, ...request }) => {
    const { id } = await client.createJob({ ...request, forceFresh: true })
    return (await client.waitForEnd(id)).status
  }))) expect(status).toBe('completed')
  expect((await fed).summary).toMatchObject({ results: 1 })
}

/** The schema id, which is waited for when it is unknown, is left as it is. */
const PREFIX_BYTES = 5
const ODD_HEADERS = ['', 'x', '-1', '1e3', '9007199254740991', '__proto__', 'A'.repeat(10_000)]

function mutatedMessage (seen: RawMessage, other: RawMessage, random: Random): Sent {
  const content = (message: RawMessage) => message.value?.subarray(PREFIX_BYTES) ?? Buffer.alloc(0)
  const prefix = seen.value?.subarray(0, PREFIX_BYTES) ?? Buffer.alloc(0)
  const value = Buffer.concat([prefix, damaged(content(seen), content(other), random)])
  const header = pick(Object.keys(seen.headers), random) ?? 'job'
  const changes = [
    {}, {}, { value: value.subarray(0, 4) }, { key: damaged(seen.key, other.key, random) },
    { headers: { ...seen.headers, [header]: pick(ODD_HEADERS, random) } },
    { headers: {} },
  ]
  const { topic, key, headers } = seen
  return { topic, key, headers, value, ...pick(changes, random) }
}

/** Nothing of the journal and the topic of keys may be left out: their readers stop, by design. */
const UNSIGNED_ONLY: ReadonlySet<TopicName | undefined> = new Set(['wallet.journal', 'job.keys'])
const isForPartners = (topic: TopicName | undefined) =>
  topic !== undefined && topology.topics[topic].split === 'partner'

function mutatedMessages (seen: readonly RawMessage[], random: Random): readonly Sent[] {
  const mac = messageMacOf(environment.env)
  return [...Map.groupBy(seen, ({ topic }) => topic).values()].flatMap(some => {
    const one = () => mutatedMessage(pick(some, random), pick(seen, random), random)
    const topic = logicalTopic(some[0]?.topic ?? '')?.topic
    const isSigned = !UNSIGNED_ONLY.has(topic) && !isForPartners(topic)
    const unsigned = Array.from({ length: UNSIGNED_A_TOPIC }, one)
    const signed = Array.from({ length: isSigned ? SIGNED_A_TOPIC : 0 }, () => {
      const message = one()
      const { headers } = mac.sign({ ...message, key: message.key.toString() })
      return { ...message, key: Buffer.from(message.key.toString()), headers }
    })
    return [...unsigned, ...signed]
  })
}

it(`${CASES} mutated messages, seed ${SEED}, stop no stage`, async () => {
  const random = seededRandom(SEED)
  const [one, other] = await Promise.all([environment.anotherDemo(), environment.anotherDemo()])
  const victim = await customerOf(one.keys)
  const bystander = await customerOf(other.keys)
  await runJobs(victim, 0)
  const topics = [...allTopics(), ...partnerTopics(victim.partner.name)].map(({ name }) => name)
    .filter(name => !READING_STAGES.some(stage => name === `${stage}.dead`))
  const isOfVictim = ({ topic, headers }: RawMessage) =>
    isForPartners(logicalTopic(topic)?.topic) || headers['tenant']?.startsWith(one.orgId)
  const seen: RawMessage[] = []
  for (const topic of topics) seen.push(...(await adversary.capture(topic)).filter(isOfVictim))
  let [sent, rounds] = [0, 0]
  while (sent < CASES) {
    const messages = mutatedMessages(seen, random)
    await adversary.send(messages)
    await untilConsumed(environment.env)
    await runJobs(bystander, rounds += 1)
    sent += messages.length
  }
  const [forged, dead] = await Promise.all(['messages_forged_total', 'stage_dead_letters_total']
    .map(metric => sumOf(environment.services.list(), metric)))
  report.push(`${sent} messages to ${new Set(seen.map(({ topic }) => topic)).size} topics in ` +
    `${rounds} rounds: ${forged} skipped as forged, ${dead} dead letters`)
  expect(forged).toBeGreaterThan(0)
  expect(dead).toBeGreaterThan(0)
  await expectServicesSound()
  expect(await breachesOf(environment.env, other.orgId)).toEqual([])
})
