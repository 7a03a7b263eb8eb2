import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import type { Client } from '../../services/client/client.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { ask, startEnvironment } from '../support/stacks/environment.ts'
import { whileStopped } from '../support/stacks/processes.ts'
import { eventually } from '../support/eventually.ts'

type Verified = Awaited<ReturnType<Client['verify']>>

const environment = closeAfterAll(await startEnvironment({}, { apart: ['verify'] }))

const service = 'phone-validation'
let next = 0
/** A phone number that no other request of this file has. */
const fresh = () => `+1212736${5_000 + next++}`

async function post (body: object, headers: Readonly<Record<string, string>> = {}) {
  const answer = await ask(`${environment.baseUrl}/verifications`, {
    key: environment.keys.live, method: 'POST', body, headers,
  })
  return { ...answer, json: answer.json as Verified & { readonly error?: { code: string } } }
}

/** Works while no check is made. */
const whileHalted = <T>(work: () => Promise<T>) =>
  whileStopped(environment.services, 'verify-1', work)

/** A job that waits for its check, which is halted. */
async function openJob (): Promise<string> {
  const { status, json } = await post({ service, inputs: [fresh()], wait: 0 })
  expect(status).toBe(202)
  await expect.poll(async () => (await environment.live.job(json.id)).status).toBe('verifying')
  return json.id
}

describe('a verification', () => {
  it('has the rows, counts and money that the job has for ever', async () => {
    const inputs = [fresh(), 'call me', '+1 212 736 5000']
    const before = await environment.live.balance()
    const { status, json } = await post({ service, inputs, countryCode: 'US' })
    const { preflight, results, ...job } = json
    expect(status).toBe(200)
    expect(job).toEqual(await environment.live.job(json.id))
    expect(job).toMatchObject({ status: 'completed', freshRecords: 1, chargedMicros: 2_000 })
    expect(preflight).toMatchObject({ totalRows: 3, invalidRows: 1, duplicateRows: 1 })
    expect(results).toEqual((await environment.live.resultsPage(json.id)).data)
    expect(results.map(({ input, status: verdict }) => [input, verdict])).toEqual(
      [[inputs[0], 'valid'], ['call me', 'invalid'], [inputs[2], 'valid']])
    const { availableMicros } = await environment.live.balance()
    expect(availableMicros).toBe(before.availableMicros - 2_000)
    const again = await environment.live.verify({ service, inputs: [inputs[0] ?? ''] })
    expect(again).toMatchObject({ cacheHits: 1, chargedMicros: 0, results: [{ source: 'cache' }] })
  })

  it('with one key is one job, charged once, on either path', async () => {
    const body = { service, inputs: [fresh()] }
    const key = randomUUID()
    const headers = { 'idempotency-key': key }
    const both = await Promise.all([post(body, headers), post({ ...body, wait: 25 }, headers)])
    const later = await post(body, headers)
    expect([...both, later].map(({ status }) => status)).toEqual([200, 200, 200])
    expect(both[1]?.json).toEqual(both[0]?.json)
    expect(later.json).toEqual(both[0]?.json)
    expect(later.headers.get('idempotent-replayed')).toBe('true')
    expect((await environment.live.createJob(body, key)).id).toBe(later.json.id)
    const other = await post({ ...body, inputs: [fresh()] }, headers)
    expect([other.status, other.json.error?.code]).toEqual([422, 'idempotency_key_reused'])
    expect(await environment.breaches()).toEqual([])
  })

  it('that has not ended goes on as a job, whose end a client awaits', async () => {
    const { verified, id } = await whileHalted(async () => {
      const body = { service, inputs: [fresh()] }
      const idempotencyKey = randomUUID()
      const answer = await post({ ...body, wait: 0 }, { 'idempotency-key': idempotencyKey })
      expect([answer.status, answer.json.status]).toEqual([202, 'queued'])
      const verified = environment.live.verify(body, { idempotencyKey, wait: 1 })
      return { verified, id: answer.json.id }
    })
    expect(await verified).toMatchObject({ id, status: 'completed', results: [{ row: 1 }] })
  })
})

describe('a long poll', () => {
  const get = async (id: string): Promise<string> => (await ask(
    `${environment.baseUrl}/jobs/${id}?wait=25`, { key: environment.keys.live })).json.status

  it('is answered when the job is cancelled, and when it ends', async () => {
    const { ended } = await whileHalted(async () => {
      const id = await openJob()
      const cancelling = get(id)
      await environment.live.cancel(id)
      expect(await cancelling).toBe('cancelling')
      return { ended: get(id) }
    })
    expect(await ended).toBe('cancelled')
  })

  it('is answered at once when its client half-closes, or the service stops', async () => {
    await whileHalted(async () => {
      const id = await openJob()
      const { hostname, port, pathname } = new URL(environment.baseUrl)
      const socket = connect(Number(port), hostname)
      socket.end(`GET ${pathname}/jobs/${id}?wait=25 HTTP/1.1\r\nHost: ${hostname}\r\n` +
        `Authorization: Bearer ${environment.keys.live}\r\nConnection: close\r\n\r\n`)
      expect(await text(socket)).toMatch(/^HTTP\/1.1 200 [^]*"status":"verifying"/)
      const waiting = get(id)
      const [admitted] = await Promise.all([environment.live.job(id), environment.live.balance()])
      expect(admitted.status).toBe('verifying')
      const pidOf = () =>
        environment.services.list().find(({ name }) => name === 'ingest-1')?.pid
      const stopped = pidOf()
      environment.services.kill('ingest-1', 'SIGTERM')
      expect(await waiting).toBe('verifying')
      // The next file uses the same services.
      await eventually(() => expect([stopped, undefined]).not.toContain(pidOf()))
    })
    await environment.services.untilReady()
  })
})
