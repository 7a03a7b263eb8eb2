import { describe, expect, it } from 'vitest'
import { refuseForeignRootKeys } from '../../../../services/runtime/platform/foreign-root-keys.ts'
import { withoutForeignRootKeys } from '../../../support/keys/foreign-root-keys.ts'
import { ROOT_KEY_SETTINGS } from '../../../support/keys/organization-keys.ts'

const faultsOf = (services: readonly string[], env: Readonly<Record<string, string>>) => {
  try {
    refuseForeignRootKeys(services, env)
    return []
  } catch (error) {
    return (error as { readonly faults: readonly string[] }).faults
  }
}

const results = {
  RESULTS_ROOT_KEYS: ROOT_KEY_SETTINGS.RESULTS_ROOT_KEYS, RESULTS_ROOT_KEY_ACTIVE: '1',
}

describe('a process', () => {
  it('refuses each setting of a class that it does not need, without its value', () => {
    expect(faultsOf(['deliver'], results)).toEqual([
      'RESULTS_ROOT_KEYS is set, but deliver needs no root keys of results: remove it from the ' +
        'environment of this process',
      'RESULTS_ROOT_KEY_ACTIVE is set, but deliver needs no root keys of results: remove it from ' +
        'the environment of this process',
    ])
    expect(faultsOf(['page'], { RESULTS_ROOT_KEY_ACTIVE: '1' })).toHaveLength(1)
  })

  it('of several services names them all', () => {
    expect(faultsOf(['deliver', 'page'], { RESULTS_ROOT_KEYS: '{}' })).toEqual([
      'RESULTS_ROOT_KEYS is set, but deliver and page need no root keys of results: remove it ' +
        'from the environment of this process',
    ])
  })

  it('of several services may have the classes of each', () => {
    expect(faultsOf(['deliver', 'publish'], ROOT_KEY_SETTINGS)).toEqual([])
    expect(faultsOf(['ledger'], results)).toEqual([])
  })

  it('may have an empty variable, which counts as missing', () => {
    expect(faultsOf(['deliver'], { RESULTS_ROOT_KEYS: ' ', RESULTS_ROOT_KEY_ACTIVE: '' }))
      .toEqual([])
  })

  it('has no settings but those of its classes after the foreign ones are unset', () => {
    const env = { ...ROOT_KEY_SETTINGS, ...withoutForeignRootKeys(['publish']) }
    expect(Object.entries(env).filter(([, value]) => value !== undefined).map(([name]) => name))
      .toEqual(['RESULTS_ROOT_KEYS', 'RESULTS_ROOT_KEY_ACTIVE', 'PARTNERS_ROOT_KEYS',
        'PARTNERS_ROOT_KEY_ACTIVE'])
  })
})
