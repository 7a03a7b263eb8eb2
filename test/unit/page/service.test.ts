import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, describe, expect, it } from 'vitest'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { pageConfig } from '../../../services/page/config.ts'
import { certificateOf } from '../../../services/page/certificate.ts'
import { startPage } from '../../../services/page/service.ts'
import { makeSignInLink } from '../../../services/admin/sign-in.ts'
import { MESSAGE_KEY_ENV } from '../../support/keys/signed.ts'

const folder = mkdtempSync(`${tmpdir()}/verification-jobs-page-`)
afterAll(() => rmSync(folder, { recursive: true }))

const env = {
  ...MESSAGE_KEY_ENV,
  REDIS_STATE_URL: 'redis://127.0.0.1:1',
  CLICKHOUSE_URL: 'http://127.0.0.1:1',
  WEBHOOKS_ROOT_KEYS: `{"1":"${Buffer.alloc(32).toString('base64')}"}`,
  WEBHOOKS_ROOT_KEY_ACTIVE: '1',
}

describe('the settings of the workspace page', () => {
  it('have the documented defaults', () => {
    const settings = loadConfig(pageConfig, env)
    expect(settings).toMatchObject({
      HOST: '127.0.0.1',
      PORT_HTTP: 8090,
      API_URL: 'http://127.0.0.1:8080/api/v1',
      SESSION_IDLE_MS: 3_600_000,
      SESSION_MS: 43_200_000,
    })
    expect(startPage.length).toBe(2)
  })
})

describe('the certificate of the page', () => {
  it('needs both files or none', () => {
    writeFileSync(`${folder}/c`, 'C')
    expect(certificateOf({ TLS_CERT_FILE: '', TLS_KEY_FILE: '' })).toBeUndefined()
    expect(certificateOf({ TLS_CERT_FILE: `${folder}/c`, TLS_KEY_FILE: `${folder}/c` }))
      .toEqual({ cert: Buffer.from('C'), key: Buffer.from('C') })
    expect(() => certificateOf({ TLS_CERT_FILE: 'x', TLS_KEY_FILE: '' }))
      .toThrow('TLS_CERT_FILE is set, but TLS_KEY_FILE is not: set both, or neither.')
  })
})

describe('a sign-in link', () => {
  it('is either for an organization or for operators', async () => {
    await expect(makeSignInLink(env, {})).rejects.toThrow('either --org <id> or --operator')
    await expect(makeSignInLink(env, { org: 'org_1', operator: true }))
      .rejects.toThrow('either --org <id> or --operator')
  })
})
