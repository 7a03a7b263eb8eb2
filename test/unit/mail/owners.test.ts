import { describe, expect, it } from 'vitest'
import { MAIL_OWNERS, mailProviderOf, ownerOfDomain } from '../../../services/mail/owners.ts'

describe('the mail provider of an exchange', () => {
  // Names as the providers' guides for domains and public MX records have them.
  it.each([
    ['google', 'gmail-smtp-in.l.google.com', 'alt4.aspmx.l.google.com', 'aspmx3.googlemail.com',
      'smtp.google.com'],
    ['microsoft', 'hotmail-com.olc.protection.outlook.com',
      'contoso-com.mail.protection.outlook.com', 'contoso-com.k-v1.mx.microsoft'],
    ['yahoo', 'mta7.am0.yahoodns.net', 'mx-aol.mail.gm0.yahoodns.net', 'mx1.mail.yahoo.co.jp'],
    ['apple', 'mx01.mail.icloud.com'],
    ['united-internet', 'mx00.emig.gmx.net', 'mx-ha03.web.de', 'mx01.mail.com',
      'mx00.ionos.co.uk', 'mx01.kundenserver.de'],
    ['t-online', 'mx00.t-online.de'],
    ['mail.ru', 'mxs.mail.ru', 'emx.mail.ru'],
    ['yandex', 'mx.yandex.ru', 'mx.yandex.net'],
    ['zoho', 'mx.zoho.com', 'mx2.zoho.eu', 'mx.zoho.com.au', 'smtpin.zohomail.com'],
    ['proofpoint', 'mxa-00148501.gslb.pphosted.com', 'mx1-us1.ppe-hosted.com'],
    ['mimecast', 'us-smtp-inbound-1.mimecast.com', 'za-smtp-inbound-2.mimecast.co.za'],
    ['barracuda', 'd180112a.ess.barracudanetworks.com'],
    ['tencent', 'mxbiz1.qq.com', 'mx3.qq.com'],
    ['netease', '163mx01.mxmail.netease.com', 'hzmx01.mxmail.netease.com'],
    ['comcast', 'mx1h1.comcast.net'],
    ['orange', 'smtp-in.orange.fr'],
    ['free.fr', 'mx1.free.fr'],
    ['proton', 'mail.protonmail.ch', 'mailsec.protonmail.ch'],
    ['fastmail', 'in1-smtp.messagingengine.com'],
    ['cisco', 'mx1.hc1234-56.iphmx.com'],
    ['cloudflare', 'route1.mx.cloudflare.net'],
    ['forcepoint', 'cust12345-1.in.mailcontrol.com'],
    ['fortinet', 'gw2345.fortimail.com'],
    ['hornetsecurity', 'mx01.hornetsecurity.com', 'mx23a.antispameurope.com'],
    ['messagelabs', 'cluster5.us.messagelabs.com'],
    ['sophos', 'mx-01-eu-central-1.prod.hydra.sophos.com'],
    ['spamexperts', 'mx.spamexperts.com', 'mx3.antispamcloud.com'],
    ['trend-micro', 'contoso.in.tmes.trendmicro.com', 'contoso.in.tmes.trendmicro.eu'],
    ['amazon', 'inbound-smtp.eu-west-1.amazonaws.com'],
    ['godaddy', 'smtp.secureserver.net', 'mailstore1.europe.secureserver.net'],
    ['ovh', 'mx1.mail.ovh.net', 'mx3.ovh.net'],
    ['rackspace', 'mx1.emailsrvr.com'],
    ['namecheap', 'mx1.privateemail.com', 'eforward5.registrar-servers.com'],
    ['hostinger', 'mx1.hostinger.com'],
    ['strato', 'smtpin.rzone.de'],
    ['mailgun', 'mxa.eu.mailgun.org'],
    ['sendgrid', 'mx.sendgrid.net'],
    ['infomaniak', 'mta-gw.infomaniak.ch'],
    ['gandi', 'spool.mail.gandi.net'],
    ['migadu', 'aspmx1.migadu.com'],
    ['naver', 'mx1.naver.com'],
    ['seznam', 'mx1.seznam.cz'],
    ['wp', 'mx.wp.pl'],
  ])('is %s', (provider, ...exchanges) => {
    for (const exchange of exchanges) {
      expect([exchange, mailProviderOf(exchange)]).toEqual([exchange, provider])
      expect(mailProviderOf(`${exchange.toUpperCase()}.`)).toBe(provider)
    }
  })

  it.each([
    'mail.firm.org', 'google.com.evil.org', 'notgoogle.com', 'mx.zoho.company', 'com',
    'outlook.com',
    // Machines of customers, not the mail service of their host.
    'ec2-54-1-2-3.compute-1.amazonaws.com', 'ip-10-1-2-3.ip.secureserver.net', 'vps1.ovh.net',
    '',
  ])('is no listed one for %j', exchange => {
    expect(mailProviderOf(exchange)).toBe('other')
  })
})

describe('the table of mail owners', () => {
  it('has each owner, exchange and domain once, in lower case', () => {
    const names = MAIL_OWNERS.flatMap(({ owner, exchanges, domains }) =>
      [`owner ${owner}`, ...exchanges.map(it => `mx ${it}`), ...domains])
    expect(new Set(names).size).toBe(names.length)
    expect(names.filter(name => !/^(?:owner |mx )?[a-z0-9.-]+(?:\.\{country\})?$/.test(name)))
      .toEqual([])
  })

  it('has the one domain of all mailboxes among the own ones', () => {
    const strange = MAIL_OWNERS.filter(({ domains, mailbox }) =>
      mailbox?.oneDomain !== undefined && !domains.includes(mailbox.oneDomain))
    expect(strange).toEqual([])
  })

  it.each([
    ['gmail.com', 'google'], ['hotmail.co.uk', 'microsoft-consumer'], ['yahoo.com.br', 'yahoo'],
    ['pm.me', 'proton'], ['fastmail.fm', 'fastmail'],
  ])('has %s as a domain of %s', (domain, owner) => {
    expect(ownerOfDomain(domain)?.owner).toBe(owner)
  })

  it.each([
    'firm.org', 'notgmail.com', 'sub.gmail.com', 'yahoo.company',
  ])('does not have %s', domain => {
    expect(ownerOfDomain(domain)).toBeUndefined()
  })
})
