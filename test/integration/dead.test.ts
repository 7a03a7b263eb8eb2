import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { organizationKeysKey } from '../support/keys/organization-keys.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { fullBitmap } from '../../services/runtime/platform/bitmap.ts'
import { readRowCount } from '../../services/runtime/engine/stage.ts'
import { runAudit } from '../support/audit.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { connectAll } from '../support/stacks/connected.ts'
import {
  messagesOf, onceMore, openDeadCommands, sendDeadLetters, skipAll, untilRead,
} from '../support/dead.ts'
import { eventually } from '../support/eventually.ts'
import { loseKeys } from '../support/organizations.ts'
import { startAlone, type RunningServices } from '../support/stacks/services.ts'
import { testStack } from '../support/stacks/stack.ts'
import { parseCsv, runJob } from '../support/stacks/environment.ts'

const { env, brokers, bus, state, wallet } = connectAll()
const { dead, lettersOf, waitingOf, run } = openDeadCommands(env)
const producer = bus.producer('poison')
const CANARY = '+12127360999'
const MISSED = 'rows.to-verify.small.phone-validation'
const CHECKS = 'verify.small.phone-validation'

let services: RunningServices
let client: Client
let tenant: string
beforeAll(async () => {
  services = await startAlone({
    env,
    stages: ['ingest', 'normalize', 'lookup', 'verify', 'settle', 'ledger'],
    // What comes after the rows are handed out does not run until a test says so.
    scale: { verify: 0, settle: 0 },
    apart: ['verify', 'settle'],
    servicesDir: testStack().servicesDir,
  })
  const { orgId, keys } = await createDemo(env)
  client = createClient({ baseUrl: services.baseUrl, apiKey: keys.live })
  tenant = `${orgId}.live`
})
afterAll(() => services?.stop())

const startAll = () => services.setScale({})

it('a letter of a running job ' +
  'is decrypted only on request, and a replay is charged once', async () => {
  const inputs = [CANARY, '+12127365001', '+12127365002']
  const { id } = await client.createJob({ service: 'phone-validation', inputs })
  // Its key is lost before any stage reads its rows, so these can't even end without a verdict.
  const { dataKey } = jobRedisKeys(tenant, id)
  const wrapped = await state.getBuffer(dataKey) ?? Buffer.alloc(0)
  await state.del(dataKey)
  await producer.send([{ topic: 'job.keys', key: id, value: null, headers: {} }])
  await startAll()
  const letters = await waitingOf(id, 2)
  expect(letters.map(({ stage, reason }) => [stage, reason]))
    .toEqual([['verify', 'job_key_lost'], ['settle', 'job_key_lost']])
  const letter = letters[0]?.letter ?? ''
  expect(await dead('show', 'verify', letter, '--open'))
    .toContain('content: cannot be opened: job_key_lost')

  await state.set(dataKey, wrapped)
  const closed = await dead('show', 'verify', letter)
  expect(closed).toContain('replayEffect: can complete open rows')
  expect(closed).not.toContain(CANARY)
  const opened = JSON.parse(await dead('show', 'verify', letter, '--open', '--json'))
  expect(opened.warning).toContain('decrypted')
  expect(opened.content.canonicals).toEqual(inputs)

  expect(await dead('replay', 'verify', letter)).toContain(`verify ${letter}: taken, job ${id}`)
  expect(await dead('replay', 'settle', '--job', id, '--yes'))
    .toMatch(new RegExp(`^settle 0:\\d+: taken, job ${id}, completed, charged [1-9]\\d* micros$`))
  const job = await client.waitForEnd(id)
  expect([job.status, job.successRecords, job.failedRecords]).toEqual(['completed', 3, 0])
  expect(job.chargedMicros).toBe(job.maxQuoteMicros)
  const results = await client.results(id)
  expect(parseCsv(results).map(({ status }) => status)).toEqual(['valid', 'valid', 'valid'])

  // Of a job that is over, a replay changes nothing.
  const balance = await wallet.balance(tenant)
  expect([balance.reservedMicros, balance.chargedMicros]).toEqual([0, job.chargedMicros])
  expect(await dead('show', 'verify', letter)).toContain('replayEffect: charges nothing')
  await dead('replay', 'verify', letter, '--again')
  await dead('replay', 'settle', '--job', id, '--again', '--yes')
  await untilRead(brokers, CHECKS, MISSED)
  await untilRead(brokers, 'settle.small', 'rows.completed.small')
  expect(await lettersOf(id)).toEqual([])
  expect(await wallet.balance(tenant)).toEqual(balance)
  expect(await client.job(id)).toEqual(job)
  expect(await client.results(id)).toBe(results)
  expect((await runAudit(env, { only: [tenant] })).breaches).toEqual([])
})

it('a letter of an organization that lacks its keys ' +
  'delays no other organization, and is replayed once they are restored', async () => {
  await services.setScale({ verify: 0 })
  const lost = await createDemo(env)
  const customer = createClient({ baseUrl: services.baseUrl, apiKey: lost.keys.live })
  const request = { service: 'phone-validation', inputs: [CANARY, 'nonsense'] } as const
  const { id } = await customer.createJob(request)
  await eventually(async () =>
    expect(await messagesOf(brokers, id, MISSED)).toHaveLength(1))
  const backup = await state.hgetall(organizationKeysKey(lost.orgId))
  await loseKeys(env, lost.orgId)
  await startAll()
  const { rows } = await runJob(client, request)
  expect(rows.map(({ status }) => status)).toEqual(['valid', 'invalid'])
  expect(await waitingOf(id)).toMatchObject([{ stage: 'verify', reason: 'missing_key' }])

  await state.hset(organizationKeysKey(lost.orgId), backup)
  await dead('replay', 'verify', '--reason', 'missing_key', '--yes')
  const job = await customer.waitForEnd(id)
  expect([job.status, job.successRecords, job.failedRecords]).toEqual(['completed', 1, 1])
  expect((await runAudit(env, { only: [`${lost.orgId}.live`] })).breaches).toEqual([])
})

it('a letter whose rows have ended without a verdict ' +
  'adds no verdict and no charge when it is replayed', async () => {
  await services.setScale({ verify: 0 })
  const before = await wallet.balance(tenant)
  const inputs = Array.from({ length: 250 }, (_, index) => `+1212737${1_000 + index}`)
  const { id } = await client.createJob({ service: 'phone-validation', inputs })
  const [first, ...others] = await messagesOf(brokers, id, MISSED)
  if (first === undefined) throw new Error('the job has parts')
  // The first part reaches the checks as garbage, and the others not yet.
  await skipAll(brokers, CHECKS, MISSED)
  await producer.send([onceMore(first, Buffer.from('garbage'))])
  await startAll()
  expect(await waitingOf(id)).toMatchObject([{ stage: 'verify', reason: 'undecodable' }])

  // The same batch as a readable letter: as if a release had fixed the defect.
  await sendDeadLetters(producer, 'verify', [{ raw: first, reason: 'fixed' }])
  const again = await dead('replay', 'verify', '--job', id, '--reason', 'fixed', '--yes')
  expect(again).toMatch(/^verify 0:\d+: taken, job /)
  await untilRead(brokers, CHECKS, MISSED)
  await producer.send(others.map(part => onceMore(part)))

  const job = await client.waitForEnd(id)
  const lost = readRowCount(first.headers)
  expect([job.status, job.successRecords, job.failedRecords])
    .toEqual(['completed', 250 - lost, lost])
  expect(job.chargedMicros).toBe((250 - lost) * (job.maxQuoteMicros / 250))
  expect((await wallet.balance(tenant)).chargedMicros - before.chargedMicros)
    .toBe(job.chargedMicros)
  const reasons = parseCsv(await client.results(id)).map(row => row['reason'])
  expect(reasons.filter(reason => reason === 'internal')).toHaveLength(lost)
  expect((await runAudit(env, { only: [tenant] })).breaches).toEqual([])
})

const headersOf = (job: string) => ({
  tenant,
  job,
  service: 'phone-validation',
  lane: 'small',
  chunk: '0',
  chunks: '1',
  firstRow: '0',
  chunkRows: '3',
  totalRows: '3',
  rows: fullBitmap(3).toString('base64'),
})

describe('an unreadable message', () => {
  beforeAll(startAll)
  it.each([
    ['normalize', 'rows.submitted.small'], ['settle', 'rows.completed.small'],
  ])('is listed for %s, shown without content, dead again if replayed', async (stage, topic) => {
    const job = `job_poison_${stage}`
    const value = Buffer.from(`garbage with ${CANARY} in it`)
    await producer.send([{ topic, key: job, value, headers: headersOf(job) }])
    const [first] = await waitingOf(job)
    if (first === undefined) throw new Error('a letter waits')
    const { letter } = first
    expect(first)
      .toMatchObject({ stage, reason: 'undecodable', tenant, job, rows: 3, decision: null })
    expect(first.from).toContain(`${topic} `)

    for (const open of [[], ['--open']]) {
      const shown = await dead('show', stage, letter, ...open)
      expect(shown).toContain('rowsOfJob: 1-3\n')
      expect(shown).toContain('envelope: not decodable')
      expect(shown).not.toContain(CANARY)
    }

    expect(await dead('replay', stage, letter))
      .toBe(`${stage} ${letter}: dead again, undecodable; it is a new letter`)
    const [second] = await waitingOf(job)
    expect(second?.letter).not.toBe(letter)
    await expect(dead('replay', stage, letter)).rejects.toThrow('Add --again')

    const discarded = await dead('discard', stage, '--job', job, '--reason', 'a test', '--yes')
    expect(discarded).toBe(`${stage}: discarded ${second?.letter}`)
    expect(await lettersOf(job)).toEqual([])
    const all = await lettersOf(job, '--all')
    expect(all.map(({ decision }) => decision?.action)).toEqual(['replayed', 'discarded'])
  })
})

it('the command ends by itself, with an answer or with what to type instead', async () => {
  const { stdout } = await run('list', '--json')
  expect(Object.keys(JSON.parse(stdout).waiting)).toContain('verify')
  await expect(run('show', 'settle', '0:99999')).rejects.toMatchObject({
    code: 2, stderr: expect.stringMatching(/^Letter 0:99999 does not exist in settle\.dead, /),
  })
})
