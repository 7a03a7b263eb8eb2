import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../../../services/platform/config.ts'
import { verifyConfig } from '../../../../../services/verify/config.ts'
import { mailDomainsOf } from '../../../../../services/verify/provider-factories.ts'
import { configuredSmtpProbe } from '../../../../../services/verify/providers/smtp/configured.ts'
import { STAGE_ENVIRONMENT } from '../../../../support/stage-environment.ts'

const HELO = { SMTP_HELO: 'probe.verify.org' }
const DNS = { DNS_SERVERS: '127.0.0.1:9' }

const configured = (more: Record<string, string>) => {
  const config = loadConfig(verifyConfig, { ...STAGE_ENVIRONMENT, ...more })
  return configuredSmtpProbe(config, mailDomainsOf(config))
}

describe('smtp-probe', () => {
  it('serves e-mail validation once it is configured', () => {
    expect(configured({ ...HELO, ...DNS })).toMatchObject({ id: 4, services: ['email-validation'] })
  })

  it('refuses to start without SMTP_HELO or DNS_SERVERS', () => {
    expect(() => configured(DNS)).toThrow('smtp-probe needs SMTP_HELO')
    expect(() => configured(HELO)).toThrow('smtp-probe needs DNS_SERVERS')
  })
})
