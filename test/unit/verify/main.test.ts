import { Redis } from 'ioredis'
import { readFileSync } from 'node:fs'
import { describe, expect, it, vi } from 'vitest'
import { ConfigError, loadConfig } from '../../../services/runtime/platform/config.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { VENDOR_PRESETS } from '../../../services/jobs/checks.ts'
import { verifyConfig } from '../../../services/verify/config.ts'
import { MailHosts } from '../../../services/verify/mailboxes/hosts.ts'
import { openMailDomains, verifyDeps } from '../../../services/verify/main.ts'
import { createProviders, lists } from '../../support/mail/smtp-probe.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'
import { batchDescription } from '../../support/vendors/vendor.ts'

const load = (more: Record<string, string>) =>
  loadConfig(verifyConfig, { ...STAGE_ENVIRONMENT, ...more })

describe('the providers of a verify configuration', () => {
  it('built in have ids of their own below 100, and the page of providers names them', () => {
    const page = readFileSync('deploy/docs/providers.md', 'utf8')
    const builtIn = Object.entries(createProviders(load({
      SMTP_HELO: 'probe.verify.org', DNS_SERVERS: '127.0.0.1:9',
    }))).filter(([name]) => !name.startsWith('http:'))
    const ids = builtIn.map(([name, create]) => {
      expect(page, 'describe it in deploy/docs/providers.md').toContain(`\`${name}\``)
      return create!().id
    })
    expect(ids.filter((id, at) => id > 99 || ids.indexOf(id) !== at),
      'take an id below 100 that no other provider has').toEqual([])
  })

  it('build smtp-probe only with SMTP_HELO and DNS_SERVERS', () => {
    const [HELO, DNS] = [{ SMTP_HELO: 'probe.verify.org' }, { DNS_SERVERS: '127.0.0.1:9' }]
    const probeOf = (more: Record<string, string>) => createProviders(load(more))['smtp-probe']?.()
    expect(probeOf({ ...HELO, ...DNS })).toMatchObject({ id: 4, services: ['email-validation'] })
    expect(() => probeOf(DNS)).toThrow('smtp-probe needs SMTP_HELO')
    expect(() => probeOf(HELO)).toThrow('smtp-probe needs DNS_SERVERS')
  })

  it('end the sessions of smtp-probe when the process stops', async () => {
    const onStop = vi.fn<(close: () => unknown) => void>()
    const config = load({ SMTP_HELO: 'probe.verify.org', DNS_SERVERS: '127.0.0.1:9' })
    createProviders(config, onStop)['smtp-probe']?.()
    const stop = vi.spyOn(MailHosts.prototype, 'stop')
    await onStop.mock.calls[0]?.[0]()
    expect(stop).toHaveBeenCalledOnce()
  })

  it.each([
    ['{"email-validation":["http:bouncer"]}', {}, 'VENDOR_BOUNCER_KEY is missing, which PROVIDERS' +
      ' needs. Set VENDOR_BOUNCER_KEY (Bouncer: API key)'],
    ['{"carrier-lookup":["http:twilio"]}', { VENDOR_TWILIO_KEY: 'AC1' },
      'VENDOR_TWILIO_KEY must be {sid}:{token}'],
    ['{"email-validation":["http:reacher"]}', { VENDOR_REACHER_KEY: 'https://r.org' },
      'VENDOR_REACHER_KEY must be {url} {secret}'],
    ['{"email-validation":["http:reacher"]}', { VENDOR_REACHER_KEY: 'http://r.org s3cret' },
      'VENDOR_REACHER_KEY url must begin with https://, because calls contain contacts'],
    ['{"email-validation":["http:bouncer"]}', { VENDOR_BOUNCER_KEY: 'a {contact}' },
      'VENDOR_BOUNCER_KEY must be a key without spaces'],
    ['{"email-validation":["http:bounser"]}', {},
      ['http:<id>', ...VENDOR_PRESETS.keys()].join(', ')],
  ])('refuse PROVIDERS %s with %o', (PROVIDERS, more, fault) => {
    expect(() => load({ PROVIDERS, ...more })).toThrow(fault)
  })

  it('check domains by the resolvers of the system unless DNS_SERVERS is empty', () => {
    const { DNS_SERVERS: _none, ...env } = STAGE_ENVIRONMENT
    expect(openMailDomains(loadConfig(verifyConfig, env), { lists })).toBeDefined()
    expect(openMailDomains(load({ DNS_SERVERS: '' }), { lists })).toBeUndefined()
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
      'DNS_SERVERS at "0" must be an IP address',
      'HTTP_PROVIDERS vendor 1: url must begin', 'vendor 1: request.body needs',
      'vendor 2: must have required properties',
    ].join('[^]*')))
  })

  it('refuse unknown ones, and those that do not serve the service', () => {
    expect(() => load({ PROVIDERS: '{"whatsapp":["sandbox"]}' })).not.toThrow()
    expect(() => load({ PROVIDERS: '{"whatsapp":["acme"]}' })).toThrow(ConfigError)
    expect(() => load({ PROVIDERS: '{"what":["sandbox"]}' })).toThrow(ConfigError)
    const redis = new Redis({ lazyConnect: true })
    expect(() => verifyDeps(load({ PROVIDERS: '{"whatsapp":["numbering-plan"]}' }), {
      state: redis,
      cache: redis,
      clock: { now: () => 0, stop: () => {} },
      log: createLog('test', { level: 'silent' }),
      metrics: createMetrics(),
      onStop: () => {},
    }, { domains: undefined, lists })).toThrow('PROVIDERS')
  })
})
