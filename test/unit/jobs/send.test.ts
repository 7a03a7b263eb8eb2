import { describe, expect, it } from 'vitest'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import { CHUNK_ROWS, send } from '../../../services/jobs/send.ts'

/** The chunks of a job of these inputs, by first row and rows. */
async function chunksOf (inputs: readonly string[], references?: readonly string[]) {
  const emissions: Emission[] = []
  await send({
    emitter: { emit: async sent => { emissions.push(...sent) } }, tokenVersion: '1',
  }, {
    submission: {
      tenant: 'org_1.live',
      service: 'whatsapp',
      inputs,
      country: '',
      forceFresh: false,
      idempotencyKey: '',
      fingerprint: '',
      metadata: {},
      webhookUrl: '',
      ...references && { references },
    },
    claimed: {
      job: 'job_1',
      dataKey: { key: Buffer.alloc(32), wrapped: Buffer.of(1) },
      nowMs: 1,
      acceptByMs: 2,
      quoteOnly: true,
    },
    signal: new AbortController().signal,
  })
  const chunks = emissions.filter(emission => emission.topic === 'rows.submitted')
  expect(chunks.flatMap(({ rows }) => rows.inputs)).toEqual(inputs)
  expect(chunks.map(({ value }) => [value.chunk, value.chunks]))
    .toEqual(chunks.map((_, chunk) => [chunk, chunks.length]))
  return chunks.map(({ value }) => [value.firstRow, value.rows])
}

const MAX_BYTES = 255 * 1_024

describe('the chunks of a job', () => {
  it.each([
    ['at most two thousand rows, the last one what is left',
      Array.from({ length: 2 * CHUNK_ROWS + 1 }, (_, row) => `+1212736${row}`),
      [[0, 2_000], [2_000, 2_000], [4_000, 1]]],
    ['at most 256 KiB, counted in bytes and not in characters',
      Array<string>(131).fill('é'.repeat(1_000)), [[0, 130], [130, 1]]],
    ['a larger input alone', ['a', 'x'.repeat(MAX_BYTES + 1), 'b'], [[0, 1], [1, 1], [2, 1]]],
    ['empty inputs as rows', ['', '', 'a'], [[0, 3]]],
  ])('have %s', async (_title, inputs, chunks) => {
    expect(await chunksOf(inputs)).toEqual(chunks)
  })

  it('leave space for what came with each input', async () => {
    const line = 'x'.repeat(MAX_BYTES / 2 - 15)
    expect(await chunksOf(['', '', '', ''], ['', line, line, line])).toEqual([[0, 2], [2, 2]])
  })
})
