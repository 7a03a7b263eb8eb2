import { describe, expect, it } from 'vitest'
import { packChecks } from '../../../services/cache/evidence.ts'
import { DEFAULT_PROVIDERS, type ProviderLists } from '../../../services/jobs/checks.ts'
import { createChecker } from '../../../services/verify/checker.ts'
import { BUILT_IN_FACTORIES } from '../../../services/verify/provider-factories.ts'
import { ProviderError, type Provider } from '../../../services/verify/provider.ts'

const limits = {
  timeoutMs: 300_000,
  concurrency: 4,
  retries: 0,
  breaker: { failingShare: 0.5, sampledMs: 30_000, openMs: 60_000 },
}
const rows = [{ row: 3, canonical: '+12127365000' }, { row: 4, canonical: '+12127360001' }]
const verdict = {
  status: 'valid', reason: 'registered', confidence: 80, fields: { whatsapp: 'true' },
} as const
const signal = new AbortController().signal
const live = { service: 'whatsapp', mode: 'live', signal } as const

const provider = (id: number, check: Provider['check']): Provider =>
  ({ id, services: ['whatsapp'], check })
const answering = (id: number, answered: readonly number[]) =>
  provider(id, async () => answered.map((row) => ({ row, verdict })))
const failing = (id: number, error: Error) => provider(id, async () => { throw error })

function checkerOf (first: Provider, second: Provider, lists: ProviderLists = {
  whatsapp: ['numbering-plan', 'email-domain'],
}) {
  const counted: string[] = []
  const checker = createChecker({
    lists,
    limits,
    factories: {
      ...BUILT_IN_FACTORIES, 'numbering-plan': () => first, 'email-domain': () => second,
    },
    metrics: {
      count: (name, labels, more = 1) => {
        if (more > 0) counted.push([name, ...Object.values(labels), more].join(' '))
      },
      observe: () => {},
    },
  })
  return { checker, counted }
}

describe('the checker of live rows', () => {
  it('is offline only if all its providers are', () => {
    const plan = { ...answering(1, []), isOffline: true } as const
    const { checker } = checkerOf(plan, answering(2, []), { whatsapp: ['numbering-plan'] })
    expect(checker.isOffline?.({ service: 'whatsapp', mode: 'live' })).toBe(true)
    expect(checker.isOffline?.({ service: 'whatsapp', mode: 'test' })).toBe(false)
    expect(checker.isOffline?.({ service: 'telegram', mode: 'live' })).toBe(false)
    expect(checkerOf(plan, answering(2, [])).checker.isOffline?.(live)).toBe(false)
    expect(BUILT_IN_FACTORIES['numbering-plan']().isOffline).toBe(true)
    expect(BUILT_IN_FACTORIES.sandbox().isOffline).toBeUndefined()
  })

  it('matches answers by row and ignores those for other rows', async () => {
    // A provider that does not say what it checked is a vendor.
    const evidence = packChecks({ vendor: 'passed' })
    const { checker, counted } = checkerOf(answering(1, [4, 9]), answering(2, [3]))
    expect(await checker(rows, live))
      .toEqual({ kind: 'answered', verdicts: new Map([[4, { ...verdict, evidence }]]) })
    expect(counted).toEqual(['provider_checks_total whatsapp 1 valid 1'])
  })

  it('calls the next provider of the list after a failure', async () => {
    const { checker, counted } =
      checkerOf(failing(1, new ProviderError('auth')), answering(2, [3, 4]))
    expect(await checker(rows, live)).toMatchObject({ kind: 'answered' })
    expect(counted[0]).toBe('provider_checks_total whatsapp 1 auth 2')
  })

  it('is down if every provider is, or there is none', async () => {
    const down = failing(1, new ProviderError('unavailable'))
    const rejecting = failing(2, new ProviderError('rejected_input'))
    expect(await checkerOf(down, rejecting).checker(rows, live)).toEqual({ kind: 'down' })
    expect(await checkerOf(down, rejecting, {}).checker(rows, live)).toEqual({ kind: 'down' })
  })

  it('rejects rows that every provider rejects', async () => {
    const rejecting = failing(1, new ProviderError('rejected_input'))
    expect(await checkerOf(rejecting, rejecting).checker(rows, live)).toEqual({ kind: 'rejected' })
  })

  it('rethrows an error that is no ProviderError', async () => {
    const { checker } = checkerOf(failing(1, new TypeError('defect')), answering(2, [3]))
    await expect(checker(rows, live)).rejects.toThrow('defect')
  })

  it('answers rows of test keys by the sandbox, never by a provider', async () => {
    const called = failing(1, new Error('called'))
    const { checker } = checkerOf(called, called)
    const answer = await checker(rows, { ...live, mode: 'test' })
    expect(answer).toMatchObject({ kind: 'answered' })
    expect(answer.kind === 'answered' && answer.verdicts.get(4)?.status).toBe('invalid')
  })

  it('refuses a list with a provider that does not serve the service', () => {
    const plan = answering(1, [])
    expect(() => checkerOf(plan, plan, { telegram: ['numbering-plan'] }))
      .toThrow('PROVIDERS names the provider numbering-plan for telegram')
  })

  it('has default providers for four services', () => {
    expect(DEFAULT_PROVIDERS).toEqual({
      'phone-validation': ['numbering-plan'],
      'carrier-single': ['numbering-plan'],
      'carrier-lookup': ['numbering-plan'],
      'email-validation': ['email-domain'],
    })
  })
})
