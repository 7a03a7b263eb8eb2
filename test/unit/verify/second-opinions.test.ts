import { describe, expect, it } from 'vitest'
import { mergeEvidence, packChecks } from '../../../services/cache/evidence.ts'
import type { ProviderLists } from '../../../services/jobs/checks.ts'
import { createChecker } from '../../../services/verify/checker.ts'
import {
  ProviderError, type Provider, type ProviderAnswer,
} from '../../../services/verify/provider.ts'
import { createSandboxProvider } from '../../../services/verify/providers/sandbox.ts'

const signal = new AbortController().signal
const live = { service: 'email-validation', mode: 'live', signal } as const
const rows = [1, 2, 3].map((row) => ({ row, canonical: `jane${row}@x.org` }))

const valid = {
  status: 'valid',
  reason: 'deliverable',
  confidence: 95,
  evidence: packChecks({ mailbox: 'passed', catch_all: 'passed' }),
  fields: {},
} as const
const unknown = {
  status: 'unknown',
  reason: 'domain_accepts_mail',
  confidence: 0,
  evidence: packChecks({ domain: 'passed' }),
  fields: { mx_found: 'true' },
} as const
const greylisted = {
  status: 'unknown',
  reason: 'greylisted',
  confidence: 0,
  evidence: packChecks({ mailbox: 'inconclusive' }),
  fields: {},
} as const
/** The unknown verdict after a mailbox check without a clear answer. */
const tried = { ...unknown, evidence: mergeEvidence(unknown.evidence, greylisted.evidence) }

type Script = Readonly<Record<number, Omit<ProviderAnswer, 'row'>>> | ProviderError

function checkerOf (first: Script, second: Script, secondLists: ProviderLists = {
  'email-validation': ['smtp-probe'],
}) {
  const calls: string[] = []
  const provider = (id: number, script: Script): Provider => ({
    id,
    services: ['email-validation'],
    check: async (its) => {
      calls.push(`${id}: ${its.map(({ row }) => row).join(' ')}`)
      if (script instanceof ProviderError) throw script
      return its.flatMap(({ row }) => script[row] === undefined ? [] : [{ row, ...script[row] }])
    },
  })
  const check = createChecker({
    lists: { 'email-validation': ['email-domain'] },
    secondLists,
    limits: {
      timeoutMs: 300_000,
      concurrency: 4,
      retries: 0,
      breaker: { failingShare: 0.5, sampledMs: 30_000, openMs: 60_000 },
    },
    factories: {
      sandbox: createSandboxProvider,
      'email-domain': () => provider(2, first),
      'smtp-probe': () => provider(4, second),
    },
  })
  return { check, calls }
}

const answers = { 1: { verdict: valid }, 2: { verdict: unknown } }

describe('a second opinion', () => {
  it('is requested only for unknown rows, and replaces only those', async () => {
    const { check, calls } = checkerOf(answers, {
      2: { verdict: { ...valid, fields: { catch_all: 'false' } } }, 3: { verdict: valid },
    })
    expect(await check(rows, live)).toEqual({
      kind: 'answered',
      verdicts: new Map<number, object>([
        [1, valid],
        [2, {
          ...valid,
          // The domain that accepts mail supports the verdict.
          confidence: 96,
          evidence: packChecks({ domain: 'passed', mailbox: 'passed', catch_all: 'passed' }),
          fields: { mx_found: 'true', catch_all: 'false' },
        }],
        [3, valid],
      ]),
    })
    expect(calls).toEqual(['2: 1 2 3', '4: 2 3'])
  })

  it('can request a retry until the retry deadline', async () => {
    const { check } = checkerOf(answers, { 2: { verdict: greylisted, retry: true } })
    const waiting = { reason: 'domain_accepts_mail', afterMs: 0, forHost: false }
    expect(await check(rows.slice(0, 2), live)).toEqual({
      kind: 'answered', verdicts: new Map([[1, valid]]), open: new Map([[2, waiting]]),
    })
    expect(await check(rows.slice(0, 2), { ...live, isLast: true })).toEqual({
      kind: 'answered', verdicts: new Map<number, object>([[1, valid], [2, tried]]),
    })
  })

  it.each<[string, Script]>([
    ['retries', { 1: { verdict: greylisted, retry: true } }],
    ['is down', new ProviderError('timeout')],
  ])('is not asked while the first provider %s, but at the retry deadline', async (_, first) => {
    const { check, calls } = checkerOf(first, { 1: { verdict: valid } })
    expect(await check(rows.slice(0, 1), live)).toMatchObject({ kind: 'down' })
    expect(calls).toEqual(['2: 1'])
    expect(await check(rows.slice(0, 1), { ...live, isLast: true }))
      .toEqual({ kind: 'answered', verdicts: new Map([[1, valid]]) })
  })

  it('is requested for rows that the first provider rejects', async () => {
    const rejecting = new ProviderError('rejected_input')
    expect(await checkerOf(rejecting, { 1: { verdict: valid } }).check(rows.slice(0, 1), live))
      .toEqual({ kind: 'answered', verdicts: new Map([[1, valid]]) })
    expect(await checkerOf(rejecting, rejecting).check(rows, live)).toEqual({ kind: 'rejected' })
  })

  it('is never requested for rows of test keys', async () => {
    const { check, calls } = checkerOf(answers, answers)
    const answer = await check([{ row: 1, canonical: 'unknown@x.org' }], { ...live, mode: 'test' })
    expect(answer).toMatchObject({ kind: 'answered' })
    expect(calls).toEqual([])
  })

  it('refuses undefined providers and those of other services', () => {
    expect(() => checkerOf(answers, answers, { 'email-validation': ['http:7'] }))
      .toThrow('SECOND_OPINIONS names the provider http:7, which is not defined')
    expect(() => checkerOf(answers, answers, { whatsapp: ['email-domain'] }))
      .toThrow('SECOND_OPINIONS names the provider email-domain for whatsapp')
  })
})
