import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Completed, Retry, ToVerify, Normalized, Submitted } from '../../../schemas/types.ts'
import { JobKeyLostError } from '../../../services/jobs/job-keys.ts'
import {
  toBoundBytes, createMessageCodec, openHeader, sealHeader,
} from '../../../services/jobs/message-codec.ts'
import type { OutgoingMessage, RawMessage } from '../../../services/runtime/kafka/bus.ts'
import { FatalError, InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createCodec } from '../../../services/runtime/kafka/registry.ts'
import { localSource } from '../../support/kafka/local-schemas.ts'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import { SealError } from '../../../services/runtime/crypto/seal.ts'
import { blockEmission, live } from '../../support/clickhouse/results.ts'
import { JOB, TENANT } from '../../support/stage-messages.ts'

const codec = createCodec(localSource())
/** One key, so that a message that was moved is refused by its binding alone. */
const key = randomBytes(32)
const keysOf = new Map(
  [`${TENANT}/${JOB}`, `${TENANT}/job_2`, `org_1.test/${JOB}`].map(name => [name, key])
)
const keys = { get: async (tenant: string, job: string) => keysOf.get(`${tenant}/${job}`) }
const messageCodec = createMessageCodec({ codec, keys })

const place = { chunk: 1, chunks: 3, firstRow: 1_000, rows: 10, totalRows: 2_010 }
const coordinates = { tenant: TENANT, job: JOB, service: 'phone-validation', ...place } as const
const inputs = Array.from({ length: 10 }, (_, row) => `+1212736500${row}`)

const submitted: Emission<'rows.submitted'> = {
  topic: 'rows.submitted',
  lane: 'bulk',
  value: {
    ...coordinates,
    country: 'US',
    submittedAt: 1,
    acceptBy: 2,
    forceFresh: false,
    sample: false,
    tokenVersion: 'v1',
    idempotencyKey: '',
    header: null,
  },
  rows: { inputs },
}
const missed: Emission<'rows.to-verify'> = {
  topic: 'rows.to-verify',
  lane: 'bulk',
  service: 'phone-validation',
  value: {
    ...coordinates,
    batch: 2,
    quotedAt: 1,
    forceFresh: false,
    tokenVersion: 'v1',
    freshnessMs: 1,
    attempt: 0,
    notBefore: 0,
    retryDeadline: 0,
  },
  rows: { rows: [0, 9], duplicates: [0, 1], canonicals: ['a', 'b'], tokens: Buffer.alloc(32) },
}
const bits = (...bytes: number[]) => Buffer.from(bytes)
const block = blockEmission(place, [
  [0, live('a', 2)], [1, { ...live(''), status: 'unknown', reason: 'timeout', source: 'none' }],
], { batch: 2 })
const finished = { ...block, rows: { ...block.rows, contacts: null } }

const rawOf = ({ topic, key, value, headers }: OutgoingMessage): RawMessage =>
  ({ topic, partition: 0, offset: 0n, key: Buffer.from(key), value, headers, timestampMs: 0 })

async function opened (raw: RawMessage) {
  const result = await messageCodec.decode(raw)
  if (result.kind !== 'message') throw new Error(JSON.stringify(result))
  return result.message
}

/** The message with fields of its envelope changed, as an attacker on the broker could. */
async function tampered (emission: Emission, change: object): Promise<RawMessage> {
  const message = await messageCodec.encode(emission)
  const value = await codec.decode(emission.topic, message.value!) as object
  return rawOf(
    { ...message, value: await codec.encode(`${emission.topic}-value`, { ...value, ...change }) }
  )
}

describe('a message', () => {
  it.each<Emission>(
    [submitted, missed, finished]
  )('of $topic comes back as it was', async emission => {
    const message = await opened(rawOf(await messageCodec.encode(emission)))
    expect(message.topic).toBe(emission.topic)
    expect(message.value).toMatchObject(emission.value)
    expect(message.rows()).toMatchObject(emission.rows ?? {})
  })

  it('is held once: its sealed bytes are where they stand in it', async () => {
    const raw = rawOf(await messageCodec.encode(submitted))
    const { sealed } = (await opened(raw)).value as Submitted
    expect(sealed.buffer).toBe(raw.value!.buffer)
    const at = sealed.byteOffset - raw.value!.byteOffset
    expect(raw.value!.subarray(at, at + sealed.length)).toEqual(sealed)
  })

  it('names its rows in headers, and has the key and topic of the topology', async () => {
    const { topic, key, headers } = await messageCodec.encode(missed)
    expect(topic).toBe('rows.to-verify.bulk.phone-validation')
    expect(key).toBe(`${JOB}:1:2`)
    expect(headers).toEqual({
      tenant: TENANT,
      job: JOB,
      service: 'phone-validation',
      lane: 'bulk',
      chunk: '1',
      chunks: '3',
      firstRow: '1000',
      chunkRows: '10',
      totalRows: '2010',
      rows: bits(1, 2).toString('base64'),
    })
    expect((await messageCodec.encode(submitted)).headers['rows'])
      .toBe(bits(255, 3).toString('base64'))
    expect((await messageCodec.encode(finished)).headers).toMatchObject({
      rows: bits(3, 0).toString('base64'), inputs: String(finished.value.inputs),
    })
  })

  it('of a retry says in a header when it is due', async () => {
    const times = { attempt: 1, notBefore: 1_234, retryDeadline: 5_678 }
    const { headers } = await messageCodec.encode({
      ...missed,
      topic: 'rows.retry',
      value: { ...missed.value, ...times },
      rows: { ...missed.rows, waits: null },
    })
    expect(headers).toMatchObject({ rows: bits(1, 2).toString('base64'), notBefore: '1234' })
  })
})

describe('a changed message', () => {
  type Any = Partial<Submitted & Normalized & ToVerify & Retry & Completed>
  it.each<[Emission, Any]>([
    [submitted, { chunk: 0 }], [submitted, { chunks: 2 }], [submitted, { job: 'job_2' }],
    [submitted, { tenant: 'org_1.test' }],
    [submitted, { rowsSchema: 1 }], [missed, { batch: 0 }], [missed, { chunk: 2 }],
    [finished, { batch: -1 }], [finished, { finished: bits(7, 0) }],
    [finished, { cached: bits(1, 0) }], [finished, { live: bits(3, 0) }],
    [finished, { invalid: bits(2, 0) }], [finished, { unknown: bits(0, 0) }],
    [finished, { cancelled: bits(2, 0) }],
    [finished, { duplicates: [{ row: 0, count: 3 }] }], [finished, { inputs: true }],
    [finished, { firstRow: 0 }],
  ])('of $topic is refused with %o', async (emission, change) => {
    expect(await messageCodec.decode(await tampered(emission, change)))
      .toEqual({ kind: 'dead', reason: 'seal_broken' })
  })

  it('is refused with a changed byte, and on another topic', async () => {
    const raw = rawOf(await messageCodec.encode(submitted))
    const { sealed } = (await opened(raw)).value as Submitted
    const flipped = Buffer.from(sealed)
    flipped[flipped.length - 1]! ^= 1
    expect(await messageCodec.decode(await tampered(submitted, { sealed: flipped })))
      .toEqual({ kind: 'dead', reason: 'seal_broken' })
    const topic = 'rows.retry.bulk.phone-validation'
    const later = { ...rawOf(await messageCodec.encode(missed)), topic }
    expect((await messageCodec.decode(later)).kind).toBe('dead')
  })

  it('does not fit when a byte moves from one bitmap to the next', () => {
    const { value } = finished
    const moved = { finished: bits(3), cached: bits(0, 0, 0) }
    expect(toBoundBytes({ ...value, ...moved })).not.toEqual(toBoundBytes(value))
  })
})

describe('what is no message', () => {
  it('is distinguished', async () => {
    const raw = rawOf(await messageCodec.encode(submitted))
    expect(await messageCodec.decode({ ...raw, value: null }))
      .toEqual({ kind: 'skip', why: 'tombstone' })
    expect(await messageCodec.decode({ ...raw, value: Buffer.from('{}') }))
      .toEqual({ kind: 'dead', reason: 'undecodable' })
    expect(await messageCodec.decode({ ...raw, topic: 'else' }))
      .toEqual({ kind: 'dead', reason: 'unknown_topic' })
  })

  it('is skipped when its job has no key any more', async () => {
    expect(await messageCodec.decode(await tampered(submitted, { job: 'job_gone' })))
      .toEqual({ kind: 'skip', why: 'no_key' })
  })

  it('stops a process that has no keys of jobs at all', async () => {
    const raw = rawOf(await messageCodec.encode(submitted))
    const keyless = createMessageCodec({ codec })
    await expect(keyless.decode(raw)).rejects.toThrow(FatalError)
    await expect(keyless.encode(submitted)).rejects.toThrow('rows.submitted has sealed rows')
  })

  it('is dead when a running job lost its key, and retried when the store is away', async () => {
    const raw = rawOf(await messageCodec.encode(submitted))
    const failing = (error: Error) =>
      createMessageCodec({ codec, keys: { get: () => Promise.reject(error) } })
    expect(await failing(new JobKeyLostError('gone')).decode(raw))
      .toEqual({ kind: 'dead', reason: 'job_key_lost' })
    await expect(failing(new InfrastructureError('away')).decode(raw)).rejects.toThrow('away')
  })

  it('is never sealed without a key', async () => {
    const value = { ...submitted.value, job: 'job_gone' }
    await expect(messageCodec.encode({ ...submitted, value })).rejects.toThrow(JobKeyLostError)
  })
})

describe('the header of a job', () => {
  const owner = { tenant: TENANT, job: JOB }
  const header = { metadata: { order: '7' }, webhookUrl: 'https://example.com/hook' }

  it('opens for its job alone', () => {
    const sealed = sealHeader(key, owner, header)
    expect(openHeader(key, owner, sealed)).toEqual(header)
    expect(() => openHeader(key, { ...owner, job: 'job_2' }, sealed)).toThrow(SealError)
  })

  it('keeps nothing but metadata and webhook address', () => {
    const sealed = sealHeader(key, owner, { ...header, inputs: ['secret'] } as never)
    expect(openHeader(key, owner, sealed)).toEqual(header)
  })

  it('is empty when there is nothing in it', () => {
    const none = { metadata: {}, webhookUrl: '' }
    expect(sealHeader(key, owner, none)).toHaveLength(0)
    expect(openHeader(key, owner, Buffer.alloc(0))).toEqual(none)
  })
})
