import { describe, expect, it } from 'vitest'
import { readHttpProviders } from '../../../../services/verify/providers/http-config.ts'
import { batchDescription, singleDescription } from '../../../support/vendors/vendor.ts'

const url = 'https://api.example'
const batch = batchDescription(url)
const faultsOf = (...described: readonly unknown[]) => readHttpProviders(described).faults

describe('HTTP_PROVIDERS', () => {
  it('is read unchanged if it has no fault', () => {
    const described = [batch, singleDescription(url)]
    expect(readHttpProviders(described)).toEqual({ providers: described, faults: [] })
    expect(readHttpProviders([])).toEqual({ providers: [], faults: [] })
  })

  it('reports all faults of all vendors at once, without values', () => {
    expect(faultsOf(
      { ...batch, id: 0, auth: { kind: 'bearer', toke: 'geheim' }, method: 'PATCH' },
      'geheim',
      { ...batch, url: 'http://geheim.example', maxRows: 5, extra: 'geheim', services: [] },
      batch, batch
    )).toEqual([
      'vendor 1: at "id" must be >= 1',
      'vendor 1: at "method" must be one of GET, POST, PUT',
      'vendor 1: at auth: must have required properties token',
      'vendor 1: at auth: has unknown properties (1); remove or rename them',
      'vendor 2: must be object',
      'vendor 3: has unknown properties (1); remove or rename them',
      'vendor 3: at "services" must not have fewer than 1 items',
      'the id 1 is used more than once; give each vendor its own',
    ])
  })
})
