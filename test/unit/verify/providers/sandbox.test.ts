import { describe, expect, it } from 'vitest'
import type { ServiceSlug } from '../../../../services/topology.ts'
import {
  createSandboxProvider, MAGIC_EMAILS, MAGIC_PHONES,
} from '../../../../services/verify/providers/sandbox.ts'

const provider = createSandboxProvider({ slowMs: 1 })
const never = new AbortController().signal

const check = (service: ServiceSlug, canonicals: readonly string[], signal = never) =>
  provider.check(canonicals.map((canonical, row) => ({ row, canonical })),
    { service, mode: 'live', signal, deadlineMs: 0 })
const verdict = async (service: ServiceSlug, canonical: string) =>
  (await check(service, [canonical]))[0]?.verdict

describe('the special inputs of the sandbox', () => {
  it.each(MAGIC_PHONES)('include numbers that end in $magic', async (m) => {
    expect(await verdict('phone-validation', `+1212736${m.magic}`))
      .toMatchObject({ status: m.status, reason: m.reason, confidence: m.confidence })
  })

  it.each(MAGIC_EMAILS)('include addresses $magic@', async (m) => {
    expect(await verdict('email-validation', `${m.magic}+1@example.org`))
      .toMatchObject({ status: m.status, reason: m.reason, confidence: m.confidence })
  })

  it.each([
    ['phone-validation', ['+12127365000', '+12127360005', '+12127360006']],
    ['email-validation', ['jane@x.org', 'unavailable@x.org', 'timeout@x.org']],
  ] as const)('of %s with scripted failures are retried', async (service, inputs) => {
    const answers = await check(service, inputs)
    expect(answers.map(({ row, retry, verdict: { reason } }) => [row, retry, reason])).toEqual([
      [0, undefined, service === 'email-validation' ? 'deliverable' : 'assigned_range'],
      [1, true, 'unavailable'],
      [2, true, 'timeout'],
    ])
  })
})

describe('an ordinary sandbox contact', () => {
  const RANGE = ['region', 'locality', 'line_type', 'carrier', 'timezone']
  it.each([
    ['phone-validation', '+12127365000', RANGE],
    ['carrier-lookup', '+12127365000', [...RANGE, 'mcc', 'mnc', 'ported']],
    ['whatsapp', '+12127365000', ['whatsapp']],
    ['telegram', '+12127365000', ['telegram']],
    ['email-validation', 'jane@x.org', ['disposable', 'role', 'free', 'catch_all', 'mx_found']],
  ] as const)('of %s is valid, with the columns of its service', async (slug, contact, columns) => {
    const { status, fields } = (await verdict(slug, contact))!
    expect([status, Object.keys(fields)]).toEqual(['valid', columns])
  })

  it.each(['whatsapp', 'telegram'] as const)('says whether it is on %s', async (service) => {
    expect(await verdict(service, '+12127365000'))
      .toMatchObject({ status: 'valid', reason: 'registered' })
    expect(await verdict(service, '+12127360007')).toMatchObject({
      status: 'invalid', reason: 'not_registered', fields: { [service]: 'false' },
    })
    expect(await verdict(service, '+12127360001')).toMatchObject({
      status: 'invalid', reason: 'unassigned_range', fields: { [service]: 'false' },
    })
  })

  it('has no fields without a verdict', async () => {
    expect((await verdict('telegram', '+12127360003'))?.fields).toEqual({})
  })
})

it('a slow answer of the sandbox ends on abort', async () => {
  await expect(check('phone-validation', ['+12127360004'], AbortSignal.abort()))
    .rejects.toMatchObject({ failure: 'timeout' })
})
