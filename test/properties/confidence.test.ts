import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CHECK_OUTCOMES, CHECKS } from '../../schemas/api/services.ts'
import {
  rateConfidence, type MadeChecks, packChecks, SUPPORT, type Claim,
} from '../../services/cache/evidence.ts'
import { REASONS } from '../../schemas/api/verdicts.ts'
import { builtInLists } from '../../services/verify/providers/email-lists.ts'
import type { Probed } from '../../services/verify/mailboxes/conversation.ts'
import { type EmailFindings, emailVerdict } from '../support/mail/smtp-probe.ts'

const NAMES = Object.keys(CHECKS).filter(name => name !== 'syntax') as readonly (keyof MadeChecks)[]
const CLAIMS = [...new Set([...REASONS, ...Object.keys(SUPPORT)])] as readonly Claim[]

const claim = fc.constantFrom(...CLAIMS)
const name = fc.constantFrom(...NAMES)
const outcome = fc.constantFrom(...CHECK_OUTCOMES)
const made = fc.dictionary(name, outcome, { noNullPrototype: true })
const stated = fc.integer({ min: 0, max: 100 })

describe('confidence', () => {
  it('is a whole number from 0 to 100', () => {
    fc.assert(fc.property(claim, made, stated, (...[of, checks, start]) => {
      const confidence = rateConfidence(of, packChecks(checks), start)
      expect(Number.isInteger(confidence)).toBe(true)
      expect(confidence).toBeGreaterThanOrEqual(start)
      expect(confidence).toBeLessThanOrEqual(100)
    }), { numRuns: 2_000 })
  })

  it('is never lowered by a further check, whatever its outcome', () => {
    fc.assert(fc.property(claim, made, name, outcome, (...[of, checks, more, found]) => {
      fc.pre(checks[more] === undefined)
      const before = rateConfidence(of, packChecks(checks))
      expect(rateConfidence(of, packChecks({ ...checks, [more]: found })))
        .toBeGreaterThanOrEqual(before)
    }), { numRuns: 5_000 })
  })
})

/** What the probe of a mailbox can find, from less to more. */
const PROBES: readonly Probed[] = [
  ...(['greylisted', 'blocked', 'unreachable', 'no_answer', 'unclear', 'late', 'no_mailbox',
    'no_mail', 'full', 'accepted'] as const).map(mailbox => ({ mailbox })),
  ...(['no_mailbox', 'no_mail', 'full'] as const).map(mailbox =>
    ({ mailbox, byWords: true } as const)),
  { mailbox: 'accepted', acceptance: 'truthful' },
  { mailbox: 'accepted', acceptance: 'accepts_any' },
  { mailbox: 'accepted', catchAll: true },
  { mailbox: 'accepted', catchAll: false },
]
const MAILS = ['accepts', 'disposable', 'implicit', 'refuses', 'missing', 'fault'] as const
const FINDINGS: readonly EmailFindings[] = [
  {}, ...MAILS.map(mail => ({ mail })),
  // Only domains with mail service are probed.
  ...(['accepts', 'implicit'] as const).flatMap(mail => PROBES.map(probed => ({ mail, probed }))),
]
const domainOf = (address: string) => address.slice(address.lastIndexOf('@') + 1)
/** Mailboxes of disposable domains are not probed. */
const findingsOf = (address: string) =>
  FINDINGS.filter(({ probed }) =>
    probed === undefined || !builtInLists.lookUp(domainOf(address)).disposable)

const ADDRESSES = [
  'jane@ietf.org', 'sales@ietf.org', 'jane@gmial.co', 'jane@gmail.con', 'jane@mailinator.com',
  'sales@mailinator.com', 'jane@x.example', 'jane@gmail.com',
]

/** Whether the second finding has everything that the first one has. */
function extendsFinding (less: EmailFindings, more: EmailFindings): boolean {
  const [before, after] = [less.probed, more.probed]
  if (less.mail !== undefined && less.mail !== 'fault' && less.mail !== more.mail) return false
  if (before === undefined) return true
  if (after === undefined) return false
  if (!CONCLUSIVE.has(before.mailbox)) return true
  return before.mailbox === after.mailbox && before.acceptance === after.acceptance &&
    (before.byWords === true || after.byWords !== true) &&
    (before.catchAll === undefined || after.catchAll === before.catchAll)
}

/** A free mail service that accepts any name has said nothing: there is no verdict any more. */
const isWithdrawn = (address: string, { probed }: EmailFindings) =>
  builtInLists.lookUp(domainOf(address)).free && probed?.catchAll === true

const CONCLUSIVE: ReadonlySet<string> = new Set(['accepted', 'no_mailbox', 'no_mail', 'full'])

describe('the confidence of an e-mail verdict', () => {
  const verdictsOf = async (address: string) => new Map(await Promise.all(findingsOf(address)
    .map(async found => [found, await emailVerdict(address, found)] as const)))

  it('is never lowered by what is found later, in every combination of findings', async () => {
    let compared = 0
    for (const address of ADDRESSES) {
      const verdicts = await verdictsOf(address)
      for (const [less, before] of verdicts) {
        for (const [more, after] of verdicts) {
          if (!extendsFinding(less, more) || isWithdrawn(address, more)) continue
          // What a server says replaces the verdict of a list, also by words, which prove less.
          if (more.probed?.byWords === true && before.reason !== after.reason) continue
          expect([address, less, more, after.confidence >= before.confidence])
            .toEqual([address, less, more, true])
          compared++
        }
      }
    }
    expect(compared).toBeGreaterThan(1_000)
  })

  it('is 0 exactly for the verdicts unknown', async () => {
    for (const address of ADDRESSES) {
      for (const [found, { status, confidence }] of await verdictsOf(address)) {
        expect([address, found, confidence === 0]).toEqual([address, found, status === 'unknown'])
      }
    }
  })
})
