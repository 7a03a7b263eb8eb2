import { describe, expect, it } from 'vitest'
import { STANDARD_COLUMNS } from '../../../../schemas/api/columns.ts'
import { columnsOf, SERVICES } from '../../../../services/jobs/results/columns.ts'
import { SERVICE_SLUGS } from '../../../../services/topology.ts'

describe('columnsOf', () => {
  it('begins with the thirteen standard columns', () => {
    expect(STANDARD_COLUMNS.join()).toBe('row,input,phone,e164,country,region,locality,line_type,' +
      'carrier,status,source,confidence,generation_basis')
  })

  it.each([
    ['phone-validation', 'timezone,national_format,extension'],
    ['carrier-single', 'timezone,mcc,mnc,ported,extension'],
    ['carrier-lookup', 'timezone,mcc,mnc,ported,extension'],
    ['whatsapp', 'whatsapp,extension'],
    ['telegram', 'telegram,extension'],
    ['email-validation',
      'email,domain,disposable,role,free,catch_all,mx_found,suggestion'],
  ] as const)('ends with the columns of %s', (service, own) => {
    expect(columnsOf(service).join()).toBe(
      `${STANDARD_COLUMNS.join()},reason,checked_at,expires_at,duplicate_of,${own}`)
  })
})

describe('SERVICES', () => {
  it('knows every service of the topology and its kind of input', () => {
    expect(Object.keys(SERVICES).sort()).toEqual([...SERVICE_SLUGS].sort())
    expect(Object.entries(SERVICES).filter(([, { kind }]) => kind === 'email').map(([s]) => s))
      .toEqual(['email-validation'])
  })
})
