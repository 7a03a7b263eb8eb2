import { randomBytes } from 'node:crypto'
import { deriveHeaderKey } from '../../../services/jobs/job-keys.ts'
import { describe, expect, it } from 'vitest'
import type { Job, IdempotencyClaim, Outcome } from '../../../services/jobs/job.ts'
import type { DecidedOutcome } from '../../../services/jobs/job.ts'
import { openHeader } from '../../../services/jobs/message-codec.ts'
import {
  CHUNK_ROWS, createSubmitter, NotSubmittedError, type Submission, type SubmitterOptions,
} from '../../../services/jobs/submit.ts'
import { FatalError, InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import { eventually } from '../../support/eventually.ts'
import { acceptRequest } from '../../support/jobs.ts'

const turn = () => new Promise<void>(resolve => setImmediate(resolve))
const key = randomBytes(32)
const dataKey = { key, wrapped: Buffer.of(9) }
const job = { id: 'job_1', announced: true } as Job
const accepted = { kind: 'accepted', job } as const
const expired = { kind: 'refused', refusal: { code: 'expired' } } as const
const submission: Submission = {
  tenant: 'org_1.live',
  service: 'phone-validation',
  inputs: ['+12127365000', 'call me'],
  country: 'US',
  forceFresh: true,
  metadata: { order: '7' },
  webhookUrl: '',
  idempotencyKey: 'key',
  fingerprint: 'print',
  otherFingerprints: ['older'],
}

type Parts = Partial<Pick<SubmitterOptions, 'liveness' | 'partitionsOf' | 'chunkRows'>> & {
  readonly claim?: IdempotencyClaim
  readonly outcome?: () => Promise<Outcome>
  readonly emit?: () => Promise<void>
  readonly createKey?: SubmitterOptions['keys']['create']
  readonly refuse?: () => Promise<Outcome>
}

function setUp ({ claim, outcome, emit, createKey, refuse, ...options }: Parts = {}) {
  const claims: unknown[] = []
  const fingerprints: (readonly string[])[] = []
  const emitted: Emission[] = []
  const refused: string[] = []
  const signals: (AbortSignal | undefined)[] = []
  const submit = createSubmitter({
    store: {
      claim: async (_tenant, { owner, endWithinMs, fingerprint, otherFingerprints = [] }) => {
        fingerprints.push([fingerprint, ...otherFingerprints])
        claims.push(endWithinMs ?? owner)
        const made = { kind: 'new', nowMs: 1_000, acceptByMs: 26_000 } as const
        return claims.length === 1 ? claim ?? made : made
      },
      refuse: async (_tenant, _job, code) => {
        refused.push(code)
        return await refuse?.() ?? { kind: 'refused', refusal: { code } }
      },
    },
    keys: { create: createKey ?? (async () => dataKey) },
    emitter: {
      emit: async (emissions, signal) => {
        emitted.push(...emissions)
        signals.push(signal)
        await emit?.()
      },
    },
    outcomes: { wait: async () => (await outcome?.() ?? accepted) as DecidedOutcome },
    clock: { now: () => 1_000 },
    tokenVersion: 'v1',
    acceptWithinMs: 25_000,
    partitionsOf: () => ({}),
    ...options,
  })
  const rowsSent = () => emitted.filter((emission): emission is Emission<'rows.submitted'> =>
    emission.topic === 'rows.submitted')
  return { submit, emitted, rowsSent, refused, signals, claims, fingerprints }
}

/** What is awaited never comes. */
const never = () => new Promise<never>(() => {})

describe('a submission', () => {
  it('sends the key and the chunks, and answers with the job', async () => {
    const { submit, emitted, claims, fingerprints } = setUp()
    expect(await submit({ ...submission, deadlineSeconds: 60 }))
      .toEqual({ kind: 'accepted', job, replayed: false })
    expect([claims, fingerprints]).toEqual([[60_000], [['print', 'older']]])
    expect(emitted.map(({ topic }) => topic)).toEqual(['job.keys', 'rows.submitted'])
    const [keys, rows] = emitted as [Emission<'job.keys'>, Emission<'rows.submitted'>]
    const { job: id, header, ...envelope } = rows.value
    expect(keys.value).toEqual({ tenant: 'org_1.live', job: id, wrapped: Buffer.of(9) })
    expect(envelope).toEqual({
      tenant: 'org_1.live',
      service: 'phone-validation',
      chunk: 0,
      chunks: 1,
      firstRow: 0,
      rows: 2,
      totalRows: 2,
      country: 'US',
      submittedAt: 1_000,
      acceptBy: 26_000,
      forceFresh: true,
      sample: false,
      tokenVersion: 'v1',
      idempotencyKey: 'key',
    })
    expect(rows.rows).toEqual({ inputs: submission.inputs })
    expect(openHeader(deriveHeaderKey(key), { tenant: 'org_1.live', job: id }, header!))
      .toEqual({ metadata: { order: '7' }, webhookUrl: '' })
  })

  it('of many rows travels in chunks of the same partitions, the header in the first', async () => {
    let count = 4
    // Though some are added meanwhile.
    const partitionsOf = () => ({ 'partitions.rows.normalized': String(++count) })
    const { submit, rowsSent } = setUp({ partitionsOf })
    await submit({ ...submission, inputs: Array<string>(12_500).fill('1') })
    const chunks = rowsSent()
    expect(chunks.map(({ lane, partitions, value }) => [lane, partitions, value.chunk]))
      .toEqual([...Array(7).keys()].map(chunk =>
        ['bulk', { 'partitions.rows.normalized': '5' }, chunk]))
    expect(chunks.filter(({ value }) => value.header !== null)).toHaveLength(1)
    expect(chunks.at(-1)!.value)
      .toMatchObject({ firstRow: 12_000, rows: 500, chunks: 7, totalRows: 12_500 })
  })

  describe('whose key a process has', () => {
    const claim = {
      kind: 'same', job: 'job_0', acceptByMs: 26_000, owner: 'one',
    } as const
    const liveness = (own: string, gone: boolean) => ({ own, isGone: async () => gone })

    it('that ended takes it over, and its unfinished request creates no job', async () => {
      const { submit, refused, claims, emitted } = setUp(
        { claim, liveness: liveness('two', true) })
      expect(await submit(submission))
        .toMatchObject({ kind: 'accepted', replayed: false })
      expect([claims, refused]).toEqual([['two', 'two'], ['internal']])
      expect(emitted).not.toEqual([])
    })

    it.each([
      ['that lives', liveness('two', false)],
      ['that is this one', liveness('one', true)],
      ['unknown to it', undefined],
    ])('%s waits for it', async (_, other) => {
      const { submit, refused, emitted } = setUp(
        { claim, ...other !== undefined && { liveness: other } })
      expect(await submit(submission)).toMatchObject({ kind: 'accepted', replayed: true })
      expect([refused, emitted]).toEqual([[], []])
    })

    it('that ended just after it was accepted is answered with that job', async () => {
      const { submit, emitted, claims } = setUp(
        { claim, liveness: liveness('two', true), refuse: async () => accepted })
      expect(await submit(submission)).toMatchObject({ kind: 'accepted', replayed: true })
      expect([claims, emitted]).toEqual([['two'], []])
    })
  })

  it('that is refused stops what is still being sent, without waiting for it', async () => {
    const { submit, signals } = setUp({ outcome: async () => expired, emit: never })
    expect(await submit(submission)).toEqual(expired)
    expect(signals[0]!.aborted).toBe(true)
  })

  it('that can not be sent is refused, unless its job is there already', async () => {
    const submitted = async (refuse?: () => Promise<Outcome>) => {
      const { submit, refused } = setUp({
        outcome: never,
        emit: () => Promise.reject(new Error('too large')),
        refuse,
      })
      const answer = await submit(submission)
      expect(refused).toEqual(['internal'])
      return answer
    }
    const internal: Outcome = { kind: 'refused', refusal: { code: 'internal' } }
    expect(await submitted()).toEqual(internal)
    expect((await submitted(async () => accepted)).kind).toBe('accepted')
    const pending = { kind: 'accepted', job: { id: 'job_1', announced: false }, entry: {} }
    await expect(submitted(async () => pending as Outcome)).rejects.toThrow(InfrastructureError)
    await expect(submitted(async () => ({ ...internal, forgotten: true }))).rejects
      .toThrow(/^Redis has no record of job job_\w+ after its claim; retry with the same/)
  })

  it.each([
    new FatalError('RESULTS_ROOT_KEYS lacks key "1"'), new InfrastructureError('Vault is sealed'),
  ])('without a root key claims and sends nothing: %s', async cause => {
    const { submit, claims, emitted, refused } = setUp({
      createKey: () => Promise.reject(cause),
    })
    for (const attempt of [submit(submission), submit({ ...submission, quoteOnly: true })]) {
      await expect(attempt).rejects.toThrow(NotSubmittedError)
      await expect(attempt).rejects.toMatchObject({ cause })
    }
    expect([claims, emitted, refused]).toEqual([[], [], []])
    // An error in the code is no reason to try again.
    const error = new TypeError('no organization')
    await expect(setUp({ createKey: () => Promise.reject(error) }).submit(submission))
      .rejects.toBe(error)
  })

  it('fails when an outage keeps the job of a feed from being sent', async () => {
    const away = new InfrastructureError('the registry is away')
    const outage = { outcome: never, emit: () => Promise.reject(away) }
    const source = {
      partner: 'acme', partition: 0, cursor: 'c', from: -1, to: 1, unitPriceMicros: null,
    }
    const feed = { source, offsets: [0, 1] }
    const { submit, refused } = setUp(outage)
    await expect(submit({ ...submission, feed })).rejects.toBe(away)
    expect(refused).toEqual(['internal'])
    const answer = { kind: 'refused', refusal: { code: 'internal' } }
    expect(await setUp(outage).submit(submission)).toEqual(answer)
    const broken = setUp({ ...outage, emit: () => Promise.reject(new Error('too large')) })
    expect(await broken.submit({ ...submission, feed })).toEqual(answer)
  })

  it('fails when nothing can be known of its outcome', async () => {
    const { submit } = setUp({
      outcome: () => Promise.reject(new Error('no Redis')),
      refuse: () => Promise.reject(new Error('still no Redis')),
    })
    await expect(submit(submission)).rejects.toThrow('still no Redis')
  })
})

describe('the chunks of a job', () => {
  async function chunksOf (change: Partial<Submission>, chunkRows?: number) {
    const { submit, rowsSent } = setUp({ chunkRows })
    await submit({ ...submission, ...change })
    const chunks = rowsSent()
    expect(chunks.flatMap(({ rows }) => rows.inputs)).toEqual(change.inputs)
    expect(chunks.map(({ value }) => [value.chunk, value.chunks]))
      .toEqual(chunks.map((_, chunk) => [chunk, chunks.length]))
    return chunks
  }
  const MAX_BYTES = 255 * 1_024

  const half = 'x'.repeat(MAX_BYTES / 2 - 15)
  it.each<[string, Partial<Submission>, readonly number[][]]>([
    ['have at most two thousand rows, the last one what is left',
      { inputs: Array.from({ length: 2 * CHUNK_ROWS + 1 }, (_, row) => `+1212736${row}`) },
      [[0, 2_000], [2_000, 2_000], [4_000, 1]]],
    ['have at most 256 KiB, counted in bytes and not in characters',
      { inputs: Array<string>(131).fill('é'.repeat(1_000)) }, [[0, 130], [130, 1]]],
    ['have a larger input alone',
      { inputs: ['a', 'x'.repeat(MAX_BYTES + 1), 'b'] }, [[0, 1], [1, 1], [2, 1]]],
    ['have empty inputs as rows', { inputs: ['', '', 'a'] }, [[0, 3]]],
    ['leave space for what came with each input',
      { inputs: ['', '', '', ''], references: ['', half, half, half] }, [[0, 2], [2, 2]]],
  ])('%s', async (_title, change, sizes) => {
    expect((await chunksOf(change)).map(({ value }) => [value.firstRow, value.rows]))
      .toEqual(sizes)
  })

  it('keep the line of a file with its row, and its columns in the sealed header', async () => {
    const file = { columns: ['name', 'phone'], references: ['a,+1', 'b,+2', 'c,+3'] }
    const chunks = await chunksOf({ inputs: ['+1', '+2', '+3'], ...file }, 2)
    expect(chunks.map(({ rows }) => rows)).toEqual([
      { inputs: ['+1', '+2'], contacts: { offsets: [], references: ['a,+1', 'b,+2'] } },
      { inputs: ['+3'], contacts: { offsets: [], references: ['c,+3'] } },
    ])
    const { tenant, job: id, header } = chunks[0]!.value
    expect(openHeader(deriveHeaderKey(key), { tenant, job: id }, header!))
      .toMatchObject({ columns: file.columns })
  })

  it('are all acknowledged before the answer', async () => {
    const waiting: (() => void)[] = []
    const { submit } = setUp({
      chunkRows: 1, emit: () => new Promise(resolve => waiting.push(resolve)),
    })
    let answered = false
    const answer = submit({ ...submission, inputs: ['1', '2', '3', '4', '5'] })
      .then(() => { answered = true })
    await eventually(() => expect(waiting).toHaveLength(2))
    waiting[0]!()
    await turn()
    expect(answered).toBe(false)
    waiting[1]!()
    await answer
  })
})

describe('a quote', () => {
  const preflight = acceptRequest('job_1').preflight
  const quoted = async () =>
    ({ kind: 'refused', refusal: { code: 'quoted', preflight, expiresAtMs: 86_000 } }) as const

  it('sends the rows and no key', async () => {
    const { submit, emitted, refused } = setUp({ outcome: quoted })
    expect(await submit({ ...submission, idempotencyKey: '', quoteOnly: true }))
      .toEqual(await quoted())
    expect(emitted.map(({ topic }) => topic)).toEqual(['rows.submitted'])
    expect(emitted[0]?.value).toMatchObject({ idempotencyKey: '' })
    expect(refused).toEqual([])
  })
})
