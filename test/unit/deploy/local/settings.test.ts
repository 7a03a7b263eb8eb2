import { describe, expect, it } from 'vitest'
import { SERVICES } from '../../../../deploy/local/launcher/layout.ts'
import { unreadSettings } from '../../../../deploy/local/launcher/settings.ts'
import { HOSTED } from '../../../../services/pipeline/config.ts'
import { commonConfig } from '../../../../services/runtime/platform/config.ts'
import { withoutForeignRootKeys } from '../../../support/keys/organization-keys.ts'

describe('a process of the local stack', () => {
  it.each(SERVICES)('gets all shared settings that it reads, and no other: %s', async service => {
    const { config } = await HOSTED[service as keyof typeof HOSTED]()
    const unread = await unreadSettings([service])
    expect(Object.keys(unread))
      .toEqual(Object.keys(commonConfig).filter(name => !(name in config.properties)))
    expect(unread).toMatchObject(withoutForeignRootKeys([service]))
  })

  it('that hosts several services gets those of each', async () => {
    const cacheSecrets = async (...services: readonly string[]) =>
      'CACHE_SECRETS' in await unreadSettings(services)
    expect([await cacheSecrets('deliver', 'page'), await cacheSecrets('deliver', 'normalize')])
      .toEqual([true, false])
  })
})
