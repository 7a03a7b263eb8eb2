import { expect, it } from 'vitest'
import { lookupConfig } from '../../../services/lookup/config.ts'
import { decideJob } from '../../../services/lookup/decide.ts'
import { readBatchRows } from '../../../services/lookup/main.ts'
import { ChunkLoader } from '../../../services/lookup/read.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { cellsIn } from '../../support/clickhouse/results.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'
import {
  acceptedJob, cachedRecord, chunksOf, createManualClock, emitted, QUOTED_AT_MS, rowsOf, tokenFor,
} from '../../support/stage-messages.ts'

const phone = (last: number) => `+1212736${5_000 + last}`
const CANONICALS = [phone(0), '', phone(1), phone(0), phone(2), phone(3), phone(2), phone(4)]
const CACHED = [phone(2), phone(4)]
const CHUNKS = chunksOf(CANONICALS, { tokenVersion: '3' })

/** What an accepted job emits, with what is reserved for so many rows. */
async function decide (messages = CHUNKS, { reservedRows = 100 } = {}) {
  const job = acceptedJob()
  const accepted = { ...job, preflight: { ...job.preflight, freshChecks: reservedRows } }
  const outcome = { kind: 'accepted', job: accepted, entry: undefined } as const
  const find = async (_scope: object, tokens: Buffer) =>
    Array.from({ length: tokens.length / 16 }, (_, row) => CACHED.some(contact =>
      tokenFor(contact).equals(tokens.subarray(16 * row, 16 * row + 16)))
      ? cachedRecord()
      : undefined)
  const decision = await decideJob({ messages, members: messages }, {
    store: {
      accept: async () => outcome,
      refuse: async () => outcome,
      outcome: async () => outcome,
      announce: async () => {},
    },
    loader: new ChunkLoader({ find }),
    clock: createManualClock(),
    policy: async () => ({ freshnessMs: 86_400_000, maxActiveJobs: 1 }),
    unitPriceMicros: () => 1,
    batchRows: () => 2,
    batch: 25,
    onUndecidable: (_job, error) => { throw error },
  })
  const [block, ...others] = emitted([decision], 'rows.completed')
  expect(others).toEqual([])
  return { block: block!, batches: emitted([decision], 'rows.to-verify') }
}

it('a chunk of an accepted job has one block with all inputs and the completed rows', async () => {
  const { block: { value, rows } } = await decide()
  expect(value.batch).toBe(-1)
  expect(rows.inputs).toEqual(CHUNKS[0]!.rows().inputs)
  expect([value.finished, value.cached, value.invalid].map(rowsOf))
    .toEqual([[1, 3, 4, 6, 7], [4, 7], [1]])
  expect(value.duplicates).toEqual([{ row: 4, count: 1 }])
  expect(rows.duplicateOf).toEqual([0, 1, 0, 5, 0])
  const checkedAt = cellsIn(rows, 'checked_at')
  expect([checkedAt?.[0], checkedAt?.[2]])
    .toEqual(['2026-08-11T00:00:00.000Z', '2026-08-10T23:00:00.000Z'])
  expect(cellsIn(rows, 'confidence')?.slice(0, 3)).toEqual(['100', '', '90'])
})

it('a chunk has verification batches with the other rows and their duplicates', async () => {
  const { batches } = await decide()
  expect(batches.map(({ value, rows }) => [value.batch, rows.rows, rows.duplicates]))
    .toEqual([[0, [0, 2], [1, 0]], [1, [5], [0]]])
  expect(batches[0]?.rows.canonicals).toEqual([phone(0), phone(1)])
  expect(batches[1]?.rows.tokens).toEqual(tokenFor(phone(3)))
  expect(batches[0]).toMatchObject({
    lane: 'small',
    service: 'phone-validation',
    value: {
      quotedAt: QUOTED_AT_MS,
      freshnessMs: 86_400_000,
      tokenVersion: '3',
      attempt: 0,
      notBefore: 0,
      retryDeadline: 0,
    },
  })
})

it('a job verifies no more rows than are reserved for, and ends the others free', async () => {
  const { block, batches } = await decide(CHUNKS, { reservedRows: 2 })
  expect(batches.flatMap(({ rows }) => rows.rows)).toEqual([0, 2])
  expect(rowsOf(block.value.finished)).toEqual([1, 3, 4, 5, 6, 7])
  expect(cellsIn(block.rows, 'confidence')?.[3]).toBe('0')
})

it('a duplicate e-mail address keeps its spelling', async () => {
  const [chunk] = chunksOf(['jane@x.org', 'JANE@x.org'], { service: 'email-validation' })
  const tokens = Buffer.concat([tokenFor('jane@x.org'), tokenFor('jane@x.org')])
  const { block } = await decide([{ ...chunk!, rows: () => ({ ...chunk!.rows(), tokens }) }])
  expect(cellsIn(block.rows, 'email')).toEqual(['JANE@x.org'])
})

it.each([
  [{}, [50, 200, 2_000]],
  [{
    VERIFY_BATCH_ROWS_SMALL: '5', VERIFY_BATCH_ROWS_QUICK: '70', QUICK_SERVICES: '["whatsapp"]',
  }, [5, 70, 200]],
])('verification batches have the size of their lane and service with %j', (settings, sizes) => {
  const batchRows = readBatchRows(loadConfig(lookupConfig, { ...STAGE_ENVIRONMENT, ...settings }))
  expect([
    batchRows('small', 'phone-validation'), batchRows('bulk', 'whatsapp'),
    batchRows('bulk', 'phone-validation'),
  ]).toEqual(sizes)
})
