import { expect, it } from 'vitest'
import { MAILBOXES } from './mailboxes.ts'
import { judgeProduct, misjudged } from './peers.ts'

const truth = MAILBOXES.map(({ address, status }) => [address, status] as const)

it('counts the truth as right, and another status where it is as true', () => {
  expect(misjudged(new Map(truth))).toEqual([])
  expect(misjudged(new Map([
    ...truth,
    ['ada.lovelace@aol.com', 'risky'],
    ['ada.lovelace@postfix-callout.org', 'valid'],
    ['info@postfix-listed.org', 'unknown'],
  ]))).toEqual([])
})

it('counts statuses that mislead, and those that are missing as unknown', () => {
  const statuses = new Map([
    ...truth,
    ['ada.lovelace@postfix-plain.org', 'invalid'],
    ['nobody.here@postfix-plain.org', 'valid'],
    ['x7@postfix-plain.org', 'risky'],
    ['info@postfix-plain.org', 'unknown'],
  ])
  statuses.delete('grace.hopper@postfix-plain.org')
  expect(judgeProduct(statuses)['Postfix']).toEqual({
    total: 9, right: 4, falseValid: 1, falseInvalid: 1, falseRisky: 1, unknown: 2,
  })
  expect(misjudged(statuses)).toContain(
    'ada.lovelace@postfix-plain.org: invalid instead of valid')
})
