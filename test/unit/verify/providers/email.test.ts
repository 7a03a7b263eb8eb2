import { describe, expect, it } from 'vitest'
import { unpackChecks } from '../../../../services/cache/evidence.ts'
import { builtInEntries, EmailLists } from '../../../../services/verify/providers/email-lists.ts'
import { createEmailDomainProvider } from '../../../../services/verify/providers/email.ts'
import {
  createScriptedDomains, type EmailFindings, emailVerdict,
} from '../../../support/mail/smtp-probe.ts'

describe('the verdict of an e-mail address', () => {
  it.each<[address: string, verdict: string, findings?: EmailFindings]>([
    ['sales@ietf.org', 'unknown domain_not_checked 0'],
    ['jane@gmail.con', 'unknown domain_not_checked 0'],
    ['sales@xn--bcher-kva.example', 'invalid reserved_domain 100'],
    ['jane@gmail.con', 'risky possible_typo 60', { mail: 'accepts' }],
    ['jane@gmail.con', 'risky possible_typo 60', { mail: 'implicit' }],
    // Without an answer of DNS only these two are verdicts.
    ['sales@mailinator.com', 'risky disposable_domain 90', { mail: 'fault' }],
    ['jane@x.example', 'invalid reserved_domain 100', { mail: 'fault' }],
    ...[
      'localhost', 'a.invalid', '1.in-addr.arpa', 'mail.example.com', '[127.0.0.1]', '[192.0.2.1]',
      '[IPv6:2001:db8::1]',
    ].map((domain): [string, string] => [`jane@${domain}`, 'invalid reserved_domain 100']),
    ...[
      '[93.184.215.14]', '[IPv6:2606:4700::1]', 'under_score.org', 'notexample.org', 'example.de',
    ].map((domain): [string, string] => [`jane@${domain}`, 'unknown domain_not_checked 0']),
  ])('of %s is %s with the findings %j', async (address, expected, findings) => {
    const { status, reason, confidence } = await emailVerdict(address, findings)
    expect(`${status} ${reason} ${confidence}`).toBe(expected)
  })

  it.each<[address: string, findings: EmailFindings, checks: object]>([
    ['jane@ietf.org', {}, { lists: 'passed' }],
    ['jane@ietf.org', { mail: 'fault' }, { lists: 'passed', domain: 'inconclusive' }],
    ['jane@ietf.org', { mail: 'missing' }, { lists: 'passed', domain: 'failed' }],
    ['jane@ietf.org', { mail: 'implicit', probed: { mailbox: 'accepted', catchAll: true } },
      { lists: 'passed', domain: 'caution', mailbox: 'passed', catch_all: 'caution' }],
    ['jane@ietf.org', { mail: 'accepts', probed: { mailbox: 'no_mailbox' } },
      { lists: 'passed', domain: 'passed', mailbox: 'failed' }],
    ['jane@ietf.org', { mail: 'accepts', probed: { mailbox: 'greylisted' } },
      { lists: 'passed', domain: 'passed', mailbox: 'inconclusive' }],
    ['a@x.example', {}, { lists: 'failed' }],
    ['a@mailinator.com', {}, { lists: 'caution' }],
    ['sales@ietf.org', {}, { lists: 'caution' }],
    ['a@gmail.con', {}, { lists: 'caution' }],
  ])('of %s with the findings %j has the checks %j', async (address, findings, checks) => {
    expect(unpackChecks((await emailVerdict(address, findings)).evidence ?? 0)).toEqual(checks)
  })

  it('contains the flags of lists, and nothing of the address but a suggested domain', async () => {
    expect((await emailVerdict('info@gmail.com')).fields)
      .toEqual({ disposable: 'false', role: 'true', free: 'true' })
    expect((await emailVerdict('"a@b"@gmial.com')).fields).toEqual({
      disposable: 'true', role: 'false', free: 'false', suggestion: 'gmail.com',
    })
  })
})

describe('the provider email-domain', () => {
  const listing = (entries: Partial<typeof builtInEntries>) =>
    new EmailLists({ ...builtInEntries, ...entries })
  const checkOptions = () => ({
    service: 'email-validation',
    mode: 'live',
    signal: new AbortController().signal,
    deadlineMs: Date.now() + 60_000,
  } as const)

  it('judges all rows of a check by the lists that it began with', async () => {
    const answered = Promise.withResolvers<'accepts'>()
    let lists = listing({ disposable: new Set(['old.org']) })
    const provider = createEmailDomainProvider({
      domains: createScriptedDomains(() => answered.promise), lists: () => lists,
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
      domains: createScriptedDomains(async () => 'disposable'),
      lists: () => listing({ allowed: new Set(['firm.org']) }),
    })
    const answers = await provider.check([
      { row: 0, canonical: 'jane@firm.org' }, { row: 1, canonical: 'jane@other.org' },
    ], checkOptions())
    expect(answers.map(({ verdict }) => [verdict.reason, verdict.fields.disposable]))
      .toEqual([['domain_accepts_mail', 'false'], ['disposable_domain', 'true']])
  })
})
