import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../services/platform/config.ts'
import { verifyConfig } from '../../../services/verify/config.ts'
import { factoriesOf } from '../../../services/verify/provider-factories.ts'
import { STAGE_ENVIRONMENT } from '../../support/stage-environment.ts'
import { batchDescription } from '../../support/vendor.ts'

const load = (more: Record<string, string>) =>
  loadConfig(verifyConfig, { ...STAGE_ENVIRONMENT, ...more })

describe('the providers of a verify configuration', () => {
  it('are the built-in ones and those in HTTP_PROVIDERS', () => {
    const HTTP_PROVIDERS = JSON.stringify([batchDescription('https://api.example')])
    const factories = factoriesOf(load({ HTTP_PROVIDERS }))
    expect(Object.keys(factories))
      .toEqual(['numbering-plan', 'email-domain', 'sandbox', 'smtp-probe', 'http:1'])
    expect(factories['http:1']?.()).toMatchObject({
      id: 101, services: ['whatsapp', 'telegram'], maxRows: 20, limits: {},
    })
  })

  it('check no domain without a resolver', async () => {
    const check = async (more: Record<string, string>) => {
      const answers = await factoriesOf(load(more))['email-domain']?.().check(
        [{ row: 0, canonical: 'jane@ietf.org' }],
        { service: 'email-validation', signal: new AbortController().signal, deadlineMs: 0 })
      return answers?.[0]?.verdict.reason
    }
    expect(await check({})).toBe('domain_not_checked')
    const unreachable = { DNS_SERVERS: '127.0.0.1:9', DNS_TIMEOUT_MS: '1' }
    expect(await check(unreachable)).toBe('dns_error')
  })

  it('refuse smtp-probe without SMTP_HELO or DNS_SERVERS', () => {
    const probe = (more: Record<string, string>) => () => factoriesOf(load(more))['smtp-probe']?.()
    expect(probe({ DNS_SERVERS: '127.0.0.1:9' })).toThrow('smtp-probe needs SMTP_HELO')
    expect(probe({ SMTP_HELO: 'probe.verify.org' })).toThrow('smtp-probe needs DNS_SERVERS')
    expect(probe({ SMTP_HELO: 'probe.verify.org', DNS_SERVERS: '127.0.0.1:9' })())
      .toMatchObject({ id: 4, services: ['email-validation'] })
  })

  it.each([
    ['SMTP_HELO', 'probe', 'must be a full host name'],
    ['SMTP_HELO', 'a.org\r\nDATA', 'must be a full host name'],
    ['SMTP_SENDER', 'a@b.org> X', 'must be a bare e-mail address'],
    ['SMTP_PROXY', 'proxy.org', 'must be host:port'],
    ['SMTP_PROXY', 'proxy.org:70000', 'must be host:port'],
  ])('refuse for %s the value "%s"', (key, value, fault) => {
    expect(() => load({ [key]: value })).toThrow(`${key} ${fault}`)
  })

  it('report all faults of HTTP_PROVIDERS and other settings at once', () => {
    const HTTP_PROVIDERS = JSON.stringify([
      batchDescription('http://api.example', { method: 'GET' }), {},
    ])
    expect(() => load({ HTTP_PROVIDERS, DNS_SERVERS: 'dns.example' })).toThrow(new RegExp([
      'HTTP_PROVIDERS vendor 1: url must begin', 'vendor 1: request.body needs',
      'vendor 2: must have required properties', 'DNS_SERVERS at "0" must be an IP address',
    ].join('[^]*')))
  })
})
