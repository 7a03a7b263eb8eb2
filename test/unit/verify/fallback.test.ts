import { describe, expect, it } from 'vitest'
import { checkWithFallback, type ResilientProvider } from '../../../services/verify/checker.ts'
import { ProviderError, type ProviderRow } from '../../../services/verify/provider.ts'
import { spansOf } from '../../support/tracing.ts'

const signal = new AbortController().signal
const rows = [1, 2, 3, 4, 5].map((row) => ({ row, canonical: `+4930${row}` }))
const verdict = {
  status: 'valid', reason: 'registered', confidence: 80, fields: { whatsapp: 'true' },
} as const

/** A provider that fails calls with certain rows. */
function providerOf (id: string, failing: readonly number[], maxRows?: number) {
  const calls: number[][] = []
  const provider: ResilientProvider = {
    id,
    services: ['whatsapp'],
    ...(maxRows === undefined ? {} : { maxRows }),
    check: async (requested: readonly ProviderRow[]) => {
      calls.push(requested.map(({ row }) => row))
      if (requested.some(({ row }) => failing.includes(row))) throw new ProviderError('unavailable')
      return requested.map(({ row }) => ({ row, verdict }))
    },
  }
  return { provider, calls }
}

describe('the fallback between providers', () => {
  it('passes only the rows of failed calls to the next provider', async () => {
    const first = providerOf('1', [3], 2)
    const second = providerOf('2', [])
    const { answers, failed } = await checkWithFallback([first.provider, second.provider], rows, {
      service: 'whatsapp', signal,
    })
    expect(first.calls).toEqual([[1, 2], [3, 4], [5]])
    expect(second.calls).toEqual([[3, 4]])
    expect([...answers.keys()].toSorted()).toEqual([1, 2, 3, 4, 5])
    expect(failed.size).toBe(0)
  })

  it('returns and counts an answer without what the service exists for as unknown', async () => {
    const counted: unknown[] = []
    const metrics = {
      count: (...[, labels, more]: readonly unknown[]) => { counted.push([labels, more]) },
      observe: () => {},
    }
    const { provider } = providerOf('1', [])
    const { answers } = await checkWithFallback([provider], rows.slice(0, 1), {
      service: 'telegram', signal, metrics,
    })
    expect(answers.get(1)).toMatchObject({ status: 'unknown', reason: 'unclear_answer' })
    expect(counted).toEqual([[{ service: 'telegram', provider: '1', outcome: 'unknown' }, 1]])
  })

  it('returns the unanswered rows and counts those to retry', async () => {
    const counted: unknown[] = []
    const waiting: ResilientProvider = {
      id: '1',
      services: ['whatsapp'],
      check: async (some) => some.slice(0, 2).map(({ row }) => ({ row, verdict, retry: true })),
    }
    const metrics = {
      count: (...[, labels, more]: readonly unknown[]) => { counted.push([labels, more]) },
      observe: () => {},
    }
    const options = { service: 'whatsapp', signal, metrics } as const
    expect((await checkWithFallback([waiting], rows, options)).failed).toEqual(new Map())
    expect(counted).toEqual([[{ service: 'whatsapp', provider: '1', outcome: 'retry' }, 2]])
    const first = rows.slice(0, 1)
    const { provider } = providerOf('1', [1])
    expect((await checkWithFallback([provider], first, options)).failed)
      .toEqual(new Map([[1, false]]))
    expect((await checkWithFallback([], first, options)).failed).toEqual(new Map([[1, false]]))
  })
})

it('a provider call is a span with the provider id and the failure', async () => {
  const [first, second] = [providerOf('1', [3], 3), providerOf('2', [])]
  const spans = await spansOf(() => checkWithFallback([first.provider, second.provider], rows, {
    service: 'whatsapp', signal,
  }))
  expect(spans.map(({ name, attributes }) => [name, attributes])).toEqual([
    ['provider ask', { provider: '1', rows: 3, 'error.type': 'unavailable' }],
    ['provider ask', { provider: '1', rows: 2 }],
    ['provider ask', { provider: '2', rows: 3 }],
  ])
})
