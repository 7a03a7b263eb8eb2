import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { mergeEvidence, packChecks } from '../../../services/cache/evidence.ts'
import type { ProviderLists } from '../../../services/jobs/checks.ts'
import { Checker } from '../../../services/verify/checker.ts'
import {
  type CheckRequest, ProviderError, type Provider, type ProviderAnswer, type ProviderFailure,
  type ProviderRequest, type ProviderVerdict, type Submissions,
} from '../../../services/verify/provider.ts'
import { createSandboxProvider } from '../../../services/verify/providers/sandbox.ts'
import type { ServiceSlug } from '../../../services/topology.ts'
import { downFor, PROVIDER_LIMITS } from '../../support/stage-messages.ts'
import { spansOf } from '../../support/tracing.ts'

const rows = [{ row: 3, canonical: '+12127365000' }, { row: 4, canonical: '+12127360001' }]
const verdict = {
  status: 'valid', reason: 'registered', confidence: 80, fields: { whatsapp: 'true' },
} as const
const signal = new AbortController().signal
const live = { service: 'whatsapp', mode: 'live', signal } as const

const provider = (id: number, check: Provider['check'], more: Partial<Provider> = {}): Provider =>
  ({ id, services: ['whatsapp'], check, ...more })
const answering = (id: number, answered: readonly number[]) =>
  provider(id, async () => answered.map((row) => ({ row, verdict })))
const failing = (id: number, error: Error) => provider(id, async () => { throw error })

function checkerOf (first: Provider, second: Provider, lists: ProviderLists = {
  whatsapp: ['numbering-plan', 'email-domain'],
}) {
  const counted: string[] = []
  const checker = new Checker({
    lists,
    limits: PROVIDER_LIMITS,
    factories: {
      sandbox: createSandboxProvider,
      'numbering-plan': () => first,
      'email-domain': () => second,
    },
    metrics: {
      count: (name, labels, more = 1) => {
        if (more > 0) counted.push([name, ...Object.values(labels), more].join(' '))
      },
      observe: () => {},
      watch: () => {},
    },
  })
  return { checker, counted }
}

describe('the checker of live rows', () => {
  it('is offline only if all its providers are', () => {
    const plan = { ...answering(1, []), isOffline: true } as const
    const { checker } = checkerOf(plan, answering(2, []), { whatsapp: ['numbering-plan'] })
    expect(checker.isOffline('whatsapp', 'live')).toBe(true)
    expect(checker.isOffline('whatsapp', 'test')).toBe(false)
    expect(checker.isOffline('telegram', 'live')).toBe(false)
    expect(checkerOf(plan, answering(2, [])).checker.isOffline('whatsapp', 'live')).toBe(false)
  })

  it('matches answers by row and ignores those for other rows', async () => {
    // A provider that does not say what it checked is a vendor.
    const evidence = packChecks({ vendor: 'passed' })
    const { checker, counted } = checkerOf(answering(1, [4, 9]), answering(2, [3]))
    expect(await checker.check(rows, live))
      .toEqual({ verdicts: new Map([[4, { ...verdict, evidence }]]), open: new Map() })
    expect(counted).toEqual(['provider_checks_total whatsapp 1 valid 1'])
  })

  it('is down if every provider is, or there is none', async () => {
    const down = failing(1, new ProviderError('unavailable'))
    const rejecting = failing(2, new ProviderError('rejected_input'))
    for (const { checker } of [checkerOf(down, rejecting), checkerOf(down, rejecting, {})]) {
      expect(await checker.check(rows, live)).toEqual(downFor(rows))
    }
  })

  it('rethrows an error that is no ProviderError', async () => {
    const { checker } = checkerOf(failing(1, new TypeError('defect')), answering(2, [3]))
    await expect(checker.check(rows, live)).rejects.toThrow('defect')
  })
})

describe('the fallback between providers', () => {
  const many = [1, 2, 3, 4, 5].map((row) => ({ row, canonical: `+4930${row}` }))

  it('has a span for each call, with the provider id and the failure', async () => {
    const failingRow3 = provider(1, async (requested) => {
      if (requested.some(({ row }) => row === 3)) throw new ProviderError('unavailable')
      return requested.map(({ row }) => ({ row, verdict }))
    }, { maxRows: 3 })
    const { checker } = checkerOf(failingRow3, answering(2, [1, 2, 3]))
    const spans = await spansOf(() => checker.check(many, live))
    expect(spans.map(({ name, attributes }) => [name, attributes])).toEqual([
      ['provider ask', { provider: '1', rows: 3, 'error.type': 'unavailable' }],
      ['provider ask', { provider: '1', rows: 2 }],
      ['provider ask', { provider: '2', rows: 3 }],
    ])
  })

  it('counts rows to retry, which stay open', async () => {
    const waiting = provider(1, async (some) =>
      some.map(({ row }) => ({ row, verdict, retry: true })))
    const { checker, counted } = checkerOf(waiting, answering(2, []))
    const { verdicts, open } = await checker.check(many, live)
    expect([verdicts.size, open.size]).toEqual([0, many.length])
    expect(counted).toEqual(['provider_checks_total whatsapp 1 retry 5'])
  })
})

describe('the policies around a provider', () => {
  /** Time does not pass, so that only the test reaches a limit. */
  beforeEach(() => { vi.useFakeTimers({ toFake: ['Date', 'performance'] }) })
  afterEach(() => { vi.useRealTimers() })

  type Setting = {
    readonly name?: 'sandbox' | 'numbering-plan'
    readonly limits?: Partial<typeof PROVIDER_LIMITS>
    readonly provider?: Partial<Provider>
  }

  /** One check after another by a provider that gets the number of its call. */
  function policiesOf (
    answer: (call: number, request: ProviderRequest) => Promise<void>,
    { name = 'numbering-plan', limits, provider: more }: Setting = {}
  ) {
    let calls = 0
    const failures: string[] = []
    const checker = new Checker({
      lists: { whatsapp: ['numbering-plan'] },
      limits: { ...PROVIDER_LIMITS, concurrency: 2, ...limits },
      factories: Object.fromEntries(['sandbox', 'numbering-plan'].map(it => [it, () =>
        provider(9, async (_rows, request) => {
          await answer(++calls, request)
          return []
        }, more)])),
      metrics: {
        count: (_, labels, more = 1) => {
          if (more > 0) failures.push(String(Object.values(labels).at(-1)))
        },
        observe: () => {},
        watch: () => {},
      },
    })
    const mode = name === 'sandbox' ? 'test' : 'live'
    return {
      check: async (request: Partial<CheckRequest> = {}) =>
        await checker.check(rows, { ...live, mode, ...request }),
      calls: () => calls,
      failures,
    }
  }
  const failWith = (failure: ProviderFailure) => async () => { throw new ProviderError(failure) }
  const never = async () => await new Promise<void>(() => {})

  it.each([
    ['a call', { timeoutMs: 5 }],
    ['an attempt, without a retry', { attemptTimeoutMs: 5, retries: 2 }],
  ])('end %s after its timeout, even if it ignores its signal', async (_, limits) => {
    let aborted = 0
    const { check, calls, failures } = policiesOf(async (_call, { signal }) => {
      signal.addEventListener('abort', () => { aborted += 1 })
      await never()
    }, { limits })
    await check()
    expect([failures, aborted, calls()]).toEqual([['timeout'], 1, 1])
  })

  it('reject with the reason of the caller\'s signal', async () => {
    const stop = new AbortController()
    const answer = policiesOf(never).check({ signal: stop.signal })
    stop.abort(new Error('stopped'))
    await expect(answer).rejects.toThrow('stopped')
  })

  it('ignore the failures of the sandbox and rejected inputs in the circuit breaker', async () => {
    const all = [
      policiesOf(failWith('auth'), { name: 'sandbox' }), policiesOf(failWith('rejected_input')),
    ]
    for (let call = 0; call < 60; call++) {
      for (const { check } of all) await check()
    }
    expect(all.map(({ calls }) => calls())).toEqual([60, 60])
  })

  it('give each attempt its deadline', async () => {
    const left: number[] = []
    const { check } = policiesOf(async (call, { deadlineMs }) => {
      left.push(deadlineMs - Date.now())
      if (call < 3) throw new ProviderError('unavailable')
    }, { limits: { timeoutMs: 60_000, attemptTimeoutMs: 20_000, retries: 2 } })
    await check()
    expect(left).toEqual([20_000, 20_000, 20_000])
  })

  /** A vendor that takes batches, and has these rows: a question that would wait is left out. */
  const asked = (calls: number) => ({
    provider: { takesBatches: true, limits: { pollRate: { calls, perMs: 60_000 } } },
  } as const)
  const submission = { provider: 9 }
  const submissions = { of: () => submission } as unknown as Submissions

  it('limit the rate of calls', async () => {
    const { check, calls } = policiesOf(async () => {}, asked(2))
    for (const [ms, count] of [[0, 2], [29_999, 2], [1, 3], [60_000, 5]] as const) {
      vi.advanceTimersByTime(ms)
      for (let call = 0; call < 3; call++) await check({ submissions })
      expect(calls()).toBe(count)
    }
  })

  it('count retries in the rate of calls', async () => {
    const { check, calls, failures } = policiesOf(async call => {
      if (call < 3) throw new ProviderError('unavailable')
    }, { ...asked(3), limits: { retries: 2 } })
    for (let time = 0; time < 2; time++) await check({ submissions })
    expect([failures, calls()]).toEqual([['rate_limited'], 3])
  })

  it.each([
    ['pause as long as a vendor asked for', 1_000, [0, 999], 1],
    ['pause for 15 minutes at most', 86_400_000, [0, 899_000], 1_000],
  ])('%s, which keeps the circuit closed', async (_, askedMs, passed, leftMs) => {
    const { check, calls, failures } = policiesOf(async call => {
      if (call === 1) throw new ProviderError('rate_limited', askedMs)
    })
    for (const ms of passed) {
      vi.advanceTimersByTime(ms)
      for (let call = 0; call < 20; call++) await check()
    }
    expect(failures).toEqual(Array(40).fill('rate_limited'))
    vi.advanceTimersByTime(leftMs)
    await check()
    expect(calls()).toBe(2)
  })

  it('reject calls at once while the circuit is open, whatever its rate', async () => {
    const rate = { calls: 10, perMs: 3_600_000 }
    const { check, calls, failures } =
      policiesOf(failWith('bad_response'), { provider: { limits: { rate } } })
    for (let call = 0; call < 30; call++) await check()
    expect(calls()).toBe(10)
    expect(failures.slice(10)).toEqual(Array(20).fill('unavailable'))
  })

  it('count no call that was aborted while it waited for the rate', async () => {
    const rate = { calls: 1, perMs: 60_000 }
    const { check, calls } = policiesOf(async () => {}, { provider: { limits: { rate } } })
    await check()
    const stop = new AbortController()
    const waiting = [check({ signal: stop.signal }), check({ signal: stop.signal })]
    await new Promise(setImmediate)
    stop.abort(new Error('stopped'))
    expect((await Promise.allSettled(waiting)).map(({ status }) => status))
      .toEqual(['rejected', 'rejected'])
    vi.advanceTimersByTime(60_000)
    await check()
    expect(calls()).toBe(2)
  })

  it('limit concurrent calls', async () => {
    let [running, most] = [0, 0]
    const { check } = policiesOf(async () => {
      most = Math.max(most, ++running)
      await new Promise(setImmediate)
      running--
    })
    await Promise.all(Array.from({ length: 7 }, () => check()))
    expect(most).toBe(2)
  })

  it('give each tenant its turn, however many calls of another one wait', async () => {
    const begun: string[] = []
    const answers: (() => void)[] = []
    const { check } = policiesOf(async (_call, { tenant = '' }) => {
      begun.push(tenant)
      await new Promise<void>(resolve => { answers.push(resolve) })
    })
    const stop = new AbortController()
    const large = Array.from({ length: 40 }, () => check({ tenant: 'large', signal: stop.signal }))
    const small = check({ tenant: 'small' })
    await new Promise(setImmediate)
    expect(begun).toEqual(['large', 'large'])
    answers.shift()?.()
    await vi.waitUntil(() => begun.length === 3)
    expect(begun.at(-1)).toBe('small')
    answers.at(-1)?.()
    await small
    // Those that wait for a place end at once.
    stop.abort(new Error('stopped'))
    const ended = await Promise.allSettled(large.slice(4))
    expect(ended.every(({ status }) => status === 'rejected')).toBe(true)
    for (const answer of answers) answer()
    await Promise.allSettled(large)
    expect(begun.filter(tenant => tenant === 'large').length).toBeLessThanOrEqual(4)
  })
})

describe('what a service sells', () => {
  const valid = { status: 'valid', reason: 'assigned_range', confidence: 90 } as const
  const on = (status: 'valid' | 'invalid' | 'risky', whatsapp?: string, reason = {
    valid: 'registered', risky: 'registered', invalid: 'not_registered',
  }[status]) => ({
    status, reason, confidence: 90, fields: whatsapp === undefined ? {} : { whatsapp },
  }) as ProviderVerdict

  async function sold (service: ServiceSlug, ...verdicts: readonly ProviderVerdict[]) {
    const { checker } = checkerOf(provider(1, async () =>
      verdicts.map((it, row) => ({ row, verdict: it })), { services: [service] }),
    answering(2, []), { [service]: ['numbering-plan'] })
    const checked = await checker.check(verdicts.map((_, row) => ({ row, canonical: `+${row}` })), {
      service, mode: 'live', signal,
    })
    return [...checked.verdicts.values()]
  }
  const words = ({ status, reason, confidence }: ProviderVerdict) =>
    `${status} ${reason} ${confidence}`

  it.each<[ServiceSlug, ProviderVerdict, string]>([
    ...(['carrier-single', 'carrier-lookup'] as const).flatMap((service) => [
      [service, { ...valid, fields: { carrier: 'Example Mobile' } }, 'valid assigned_range 90'],
      [service, { ...valid, fields: { mcc: '262', mnc: '01' } }, 'valid assigned_range 90'],
      ...[{}, { mcc: '262' }, { mnc: '01' }, { timezone: 'Europe/Berlin' }].map((fields) =>
        [service, { ...valid, fields }, 'unknown carrier_unknown 0']),
      [service, { ...valid, status: 'invalid', reason: 'unassigned_range', fields: {} },
        'unknown unassigned_range 0'],
      [service, { ...valid, status: 'unknown', reason: 'no_answer', fields: {} },
        'unknown no_answer 90'],
    ] as [ServiceSlug, ProviderVerdict, string][]),
    ['phone-validation', { ...valid, fields: {} }, 'valid assigned_range 90'],
    ['whatsapp', on('valid', 'true'), 'valid registered 90'],
    ['whatsapp', on('risky', 'true'), 'risky registered 90'],
    ['whatsapp', on('invalid', 'false'), 'invalid not_registered 90'],
    ...[
      on('valid'), on('invalid'), on('valid', 'false'), on('risky', 'false'), on('invalid', 'true'),
      on('valid', 'true', 'not_registered'),
    ].map((it): [ServiceSlug, ProviderVerdict, string] =>
      ['whatsapp', it, 'unknown unclear_answer 0']),
    ['telegram', on('valid', 'true'), 'unknown unclear_answer 0'],
  ])('%s: of %o it is %s', async (service, given, expected) => {
    const [verdictSold] = await sold(service, given)
    expect(words(verdictSold!)).toBe(expected)
    const isUnclear = verdictSold!.reason === 'unclear_answer'
    expect(verdictSold!.fields).toEqual(isUnclear ? {} : given.fields)
  })
})

const email = { service: 'email-validation', mode: 'live', signal } as const
const emails = [1, 2, 3].map((row) => ({ row, canonical: `jane${row}@x.org` }))

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

function opinionsOf (first: Script, second: Script, secondLists: ProviderLists = {
  'email-validation': ['smtp-probe'],
}) {
  const calls: string[] = []
  const scripted = (id: number, script: Script) => provider(id, async (its) => {
    calls.push(`${id}: ${its.map(({ row }) => row).join(' ')}`)
    if (script instanceof ProviderError) throw script
    return its.flatMap(({ row }) => script[row] === undefined ? [] : [{ row, ...script[row] }])
  }, { services: ['email-validation'] })
  const checker = new Checker({
    lists: { 'email-validation': ['email-domain'] },
    secondLists,
    limits: PROVIDER_LIMITS,
    factories: {
      sandbox: createSandboxProvider,
      'email-domain': () => scripted(2, first),
      'smtp-probe': () => scripted(4, second),
    },
  })
  const check: Checker['check'] = async (...asked) => await checker.check(...asked)
  return { check, calls }
}

const answers = { 1: { verdict: valid }, 2: { verdict: unknown } }

describe('a second opinion', () => {
  it('is requested only for unknown rows, and replaces only those', async () => {
    const { check, calls } = opinionsOf(answers, {
      2: { verdict: { ...valid, fields: { catch_all: 'false' } } }, 3: { verdict: valid },
    })
    expect(await check(emails, email)).toEqual({
      open: new Map(),
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

  it('that is deliverable drops a catch_all that was not answered truthfully', async () => {
    const untruthful = {
      ...unknown,
      reason: 'not_answered_truthfully',
      evidence: packChecks({ domain: 'passed', catch_all: 'caution' }),
      fields: { mx_found: 'true', catch_all: 'true' },
    } as const
    const { check } = opinionsOf({ 1: { verdict: untruthful }, 2: { verdict: untruthful } }, {
      1: { verdict: valid }, 2: { verdict: { ...valid, fields: { catch_all: 'true' } } },
    })
    const answer = await check(emails.slice(0, 2), email)
    expect([...answer.verdicts.values()].map(({ fields }) => fields))
      .toEqual([{ mx_found: 'true' }, { mx_found: 'true', catch_all: 'true' }])
  })

  it('can request a retry until the retry deadline', async () => {
    const { check } = opinionsOf(answers, { 2: { verdict: greylisted, retry: true } })
    const waiting = { reason: 'domain_accepts_mail', afterMs: 0, forHost: false }
    expect(await check(emails.slice(0, 2), email)).toEqual({
      verdicts: new Map([[1, valid]]), open: new Map([[2, waiting]]),
    })
    expect(await check(emails.slice(0, 2), { ...email, isLast: true })).toEqual({
      verdicts: new Map<number, object>([[1, valid], [2, tried]]), open: new Map(),
    })
  })

  it.each<[string, Script]>([
    ['retries', { 1: { verdict: greylisted, retry: true } }],
    ['is down', new ProviderError('timeout')],
  ])('is not asked while the first provider %s, but at the retry deadline', async (_, first) => {
    const { check, calls } = opinionsOf(first, { 1: { verdict: valid } })
    expect((await check(emails.slice(0, 1), email)).open.has(1)).toBe(true)
    expect(calls).toEqual(['2: 1'])
    expect(await check(emails.slice(0, 1), { ...email, isLast: true }))
      .toEqual({ verdicts: new Map([[1, valid]]), open: new Map() })
  })

  it('is requested for rows that the first provider rejects', async () => {
    const rejecting = new ProviderError('rejected_input')
    expect(await opinionsOf(rejecting, { 1: { verdict: valid } }).check(emails.slice(0, 1), email))
      .toEqual({ verdicts: new Map([[1, valid]]), open: new Map() })
    expect(await opinionsOf(rejecting, rejecting).check(emails, email))
      .toEqual({ verdicts: new Map(), open: new Map() })
  })

  it('is never requested for rows of test keys, which the sandbox answers alone', async () => {
    const { check, calls } = opinionsOf(answers, answers)
    const answer = await check([{ row: 1, canonical: 'unknown@x.org' }], { ...email, mode: 'test' })
    expect(answer.verdicts.get(1)?.status).toBe('unknown')
    expect(calls).toEqual([])
  })

  it('refuses undefined providers and those of other services', () => {
    expect(() => opinionsOf(answers, answers, { 'email-validation': ['http:7'] }))
      .toThrow('SECOND_OPINIONS names the provider http:7, which is not defined')
    expect(() => opinionsOf(answers, answers, { whatsapp: ['email-domain'] }))
      .toThrow('SECOND_OPINIONS names the provider email-domain for whatsapp')
  })
})
