import { describe, expect, it } from 'vitest'
import { askInTurn, type Guarded } from '../../../services/verify/ask.ts'
import { ProviderError, type ProviderRow } from '../../../services/verify/provider.ts'
import { spansOf } from '../../support/tracing.ts'

const signal = new AbortController().signal
const rows = [1, 2, 3, 4, 5].map((row) => ({ row, canonical: `+4930${row}` }))
const verdict = { status: 'valid', reason: 'registered', confidence: 80, fields: {} } as const

/** A provider that fails calls which hold one of some rows. */
function guarded (id: string, failing: readonly number[], maxRows?: number) {
  const calls: number[][] = []
  const provider: Guarded = {
    id,
    services: ['whatsapp'],
    ...(maxRows === undefined ? {} : { maxRows }),
    check: async (asked: readonly ProviderRow[]) => {
      calls.push(asked.map(({ row }) => row))
      if (asked.some(({ row }) => failing.includes(row))) throw new ProviderError('unavailable')
      return asked.map(({ row }) => ({ row, verdict }))
    },
  }
  return { provider, calls }
}

describe('asking providers in turn', () => {
  it('gives the next one only the rows of calls that failed', async () => {
    const first = guarded('1', [3], 2)
    const second = guarded('2', [])
    const { answers, failed } = await askInTurn([first.provider, second.provider], rows, {
      service: 'whatsapp', signal,
    })
    expect(first.calls).toEqual([[1, 2], [3, 4], [5]])
    expect(second.calls).toEqual([[3, 4]])
    expect([...answers.keys()].toSorted()).toEqual([1, 2, 3, 4, 5])
    expect(failed.size).toBe(0)
  })

  it('tells the rows nobody could answer, and counts those that wait', async () => {
    const counted: unknown[] = []
    const waiting: Guarded = {
      id: '1',
      services: ['whatsapp'],
      check: async (asked) => asked.slice(0, 2).map(({ row }) => ({ row, verdict, again: true })),
    }
    const metrics = {
      count: (...[, labels, more]: readonly unknown[]) => { counted.push([labels, more]) },
      observe: () => {},
    }
    const options = { service: 'whatsapp', signal, metrics } as const
    expect((await askInTurn([waiting], rows, options)).failed).toEqual(new Map())
    expect(counted).toEqual([[{ service: 'whatsapp', provider: '1', outcome: 'put_off' }, 2]])
    expect((await askInTurn([guarded('1', [1]).provider], rows.slice(0, 1), options)).failed)
      .toEqual(new Map([[1, false]]))
    expect((await askInTurn([], rows.slice(0, 1), options)).failed).toEqual(new Map([[1, false]]))
  })
})

it('a call is a span with the number of its provider, and how it failed', async () => {
  const [first, second] = [guarded('1', [3], 3), guarded('2', [])]
  const spans = await spansOf(() => askInTurn([first.provider, second.provider], rows, {
    service: 'whatsapp', signal,
  }))
  expect(spans.map(({ name, attributes }) => [name, attributes])).toEqual([
    ['provider ask', { provider: '1', rows: 3, 'error.type': 'unavailable' }],
    ['provider ask', { provider: '1', rows: 2 }],
    ['provider ask', { provider: '2', rows: 3 }],
  ])
})
