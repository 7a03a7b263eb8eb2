import { describe, expect, it } from 'vitest'
import { verdictOf } from '../../../../services/verify/providers/email-verdict.ts'
import { createEmailDomainProvider } from '../../../../services/verify/providers/email.ts'

describe('the verdict of an e-mail address', () => {
  it.each([
    ['jane@mailinator.com', 'risky disposable_domain 90'],
    ['sales@mailinator.com', 'risky disposable_domain 90'],
    ['sales@ietf.org', 'risky role_address 70'],
    ['jane@gmail.con', 'risky possible_typo 60'],
    ['jane@gmail.com', 'unknown domain_not_checked 0'],
    ['jane@ietf.org', 'unknown domain_not_checked 0'],
    ['sales@xn--bcher-kva.example', 'invalid reserved_domain 100'],
    ['root@localhost', 'invalid reserved_domain 100'],
  ])('%s is %s', (address, expected) => {
    const { status, reason, confidence } = verdictOf(address)
    expect(`${status} ${reason} ${confidence}`).toBe(expected)
  })

  it('has the flags of lists, and no columns of DNS', () => {
    expect(verdictOf('info@gmail.com').fields)
      .toEqual({ disposable: 'false', role: 'true', free: 'true' })
  })

  it('contains nothing of the address but a suggested domain', () => {
    expect(verdictOf('"a@b"@gmial.com').fields).toEqual({
      disposable: 'true', role: 'false', free: 'false', suggestion: 'gmail.com',
    })
  })
})

describe('the provider email-domain', () => {
  it('answers every row by its number', async () => {
    const answers = await createEmailDomainProvider().check([
      { row: 5, canonical: 'jane@ietf.org' }, { row: 2, canonical: 'sales@ietf.org' },
    ], { service: 'email-validation', signal: new AbortController().signal, deadlineMs: 0 })
    expect(answers.map(({ row, verdict }) => [row, verdict.reason]))
      .toEqual([[5, 'domain_not_checked'], [2, 'role_address']])
  })
})
