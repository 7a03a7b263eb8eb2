import { describe, expect, it } from 'vitest'
import { unpackChecks } from '../../../../services/cache/evidence.ts'
import { builtInEntries, EmailLists } from '../../../../services/verify/providers/email-lists.ts'
import {
  createEmailDomainProvider, emailVerdictOf,
} from '../../../../services/verify/providers/email.ts'
import type { MailDomains } from '../../../../services/verify/providers/mail-domains.ts'

describe('the verdict of an e-mail address', () => {
  it.each([
    ['jane@mailinator.com', 'risky disposable_domain 90'],
    ['sales@mailinator.com', 'risky disposable_domain 90'],
    ['sales@ietf.org', 'unknown domain_not_checked 0'],
    ['jane@gmail.con', 'unknown domain_not_checked 0'],
    ['jane@gmail.com', 'unknown domain_not_checked 0'],
    ['jane@ietf.org', 'unknown domain_not_checked 0'],
    ['sales@xn--bcher-kva.example', 'invalid reserved_domain 100'],
    ['root@localhost', 'invalid reserved_domain 100'],
  ])('%s is %s', (address, expected) => {
    const { status, reason, confidence } = emailVerdictOf(address)
    expect(`${status} ${reason} ${confidence}`).toBe(expected)
  })

  it.each(['accepts', 'implicit'] as const)('is that of lists if the domain %s', (mail) => {
    const reasons = ['sales@ietf.org', 'jane@gmail.con']
      .map((it) => emailVerdictOf(it, { mail }).reason)
    expect(reasons).toEqual(['role_address', 'possible_typo'])
  })

  it('is unknown without an answer of DNS, except for disposable and reserved domains', () => {
    const reasons = ['sales@ietf.org', 'jane@gmail.con', 'jane@mailinator.com', 'jane@x.example']
      .map((it) => emailVerdictOf(it, { mail: 'fault' }).reason)
    expect(reasons).toEqual(['dns_error', 'dns_error', 'disposable_domain', 'reserved_domain'])
  })

  it('has the flags of lists, and no columns of DNS', () => {
    expect(emailVerdictOf('info@gmail.com').fields)
      .toEqual({ disposable: 'false', role: 'true', free: 'true' })
  })

  it.each([
    [{}, { lists: 'passed' }],
    [{ mail: 'fault' }, { lists: 'passed', domain: 'inconclusive' }],
    [{ mail: 'missing' }, { lists: 'passed', domain: 'failed' }],
    [{ mail: 'implicit', probed: { mailbox: 'accepted', catchAll: true } },
      { lists: 'passed', domain: 'caution', mailbox: 'passed', catch_all: 'caution' }],
    [{ mail: 'accepts', probed: { mailbox: 'no_mailbox' } },
      { lists: 'passed', domain: 'passed', mailbox: 'failed' }],
    [{ mail: 'accepts', probed: { mailbox: 'greylisted' } },
      { lists: 'passed', domain: 'passed', mailbox: 'inconclusive' }],
  ] as const)('with the findings %j has the checks %j', (found, checks) => {
    expect(unpackChecks(emailVerdictOf('jane@ietf.org', found).evidence ?? 0)).toEqual(checks)
  })

  it('fails the check of lists for a reserved domain, and needs caution for others', () => {
    const listsOf = (address: string) =>
      unpackChecks(emailVerdictOf(address, { mail: 'accepts' }).evidence ?? 0).lists
    expect(['a@x.example', 'a@mailinator.com', 'sales@ietf.org', 'a@gmail.con'].map(listsOf))
      .toEqual(['failed', 'caution', 'caution', 'caution'])
  })

  it('contains nothing of the address but a suggested domain', () => {
    expect(emailVerdictOf('"a@b"@gmial.com').fields).toEqual({
      disposable: 'true', role: 'false', free: 'false', suggestion: 'gmail.com',
    })
  })
})

describe('the provider email-domain', () => {
  it('answers every row by its number', async () => {
    const answers = await createEmailDomainProvider().check([
      { row: 5, canonical: 'jane@ietf.org' }, { row: 2, canonical: 'jane@mailinator.com' },
    ], { service: 'email-validation', signal: new AbortController().signal, deadlineMs: 0 })
    expect(answers.map(({ row, verdict }) => [row, verdict.reason]))
      .toEqual([[5, 'domain_not_checked'], [2, 'disposable_domain']])
  })

  const listing = (entries: Partial<typeof builtInEntries>) =>
    new EmailLists({ ...builtInEntries, ...entries })
  const checkOptions = () => ({
    service: 'email-validation',
    signal: new AbortController().signal,
    deadlineMs: Date.now() + 60_000,
  } as const)
  const domainsOf = (find: MailDomains['find']): MailDomains =>
    ({ isAvailable: async () => true, known: () => undefined, find, hosts: async () => [] })

  it('judges all rows of a check by the lists that it began with', async () => {
    const answered = Promise.withResolvers<'accepts'>()
    let lists = listing({ disposable: new Set(['old.org']) })
    const provider = createEmailDomainProvider({
      domains: domainsOf(() => answered.promise), lists: () => lists,
    })
    const check = () => provider.check([
      { row: 0, canonical: 'jane@old.org' }, { row: 1, canonical: 'jane@new.org' },
    ], checkOptions())
    const disposable = async (checked: ReturnType<typeof check>) =>
      (await checked).map(({ verdict }) => verdict.fields.disposable)
    const running = check()
    lists = listing({ disposable: new Set(['new.org']) })
    answered.resolve('accepts')
    expect(await disposable(running)).toEqual(['true', 'false'])
    expect(await disposable(check())).toEqual(['false', 'true'])
  })

  it('calls no allowed domain disposable, whatever its mail servers', async () => {
    const provider = createEmailDomainProvider({
      domains: domainsOf(async () => 'disposable'),
      lists: () => listing({ allowed: new Set(['firm.org']) }),
    })
    const answers = await provider.check([
      { row: 0, canonical: 'jane@firm.org' }, { row: 1, canonical: 'jane@other.org' },
    ], checkOptions())
    expect(answers.map(({ verdict }) => [verdict.reason, verdict.fields.disposable]))
      .toEqual([['domain_accepts_mail', 'false'], ['disposable_domain', 'true']])
  })
})
