import { describe, expect, it } from 'vitest'
import {
  exchangeName, MAIL_OWNERS, findMailProvider, maskExchange, normalizedMailbox, unmaskExchange,
} from '../../../services/mail/owners.ts'

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
      expect([exchange, findMailProvider(exchange)]).toEqual([exchange, provider])
      expect(findMailProvider(`${exchange.toUpperCase()}.`)).toBe(provider)
    }
  })

  it.each([
    'mail.firm.org', 'google.com.evil.org', 'notgoogle.com', 'mx.zoho.company', 'com',
    'outlook.com',
    // Machines of customers, not the mail service of their host.
    'ec2-54-1-2-3.compute-1.amazonaws.com', 'ip-10-1-2-3.ip.secureserver.net', 'vps1.ovh.net',
    // Their lines.
    'c-73-1-2-3.hsd1.ca.comcast.net', 'lfbn-1-107-76.w90-89.abo.wanadoo.fr', 'anyone.hd.free.fr',
    'massena-4-82-67-1-2.fbx.proxad.net', 'adsl-1-2-3-4.dsl.chcgil.prodigy.net',
    '',
  ])('is no listed one for %j', exchange => {
    expect(findMailProvider(exchange)).toBe('other')
  })
})

describe('the table of mail owners', () => {
  it('has each owner, exchange and domain once, in lower case', () => {
    const names = MAIL_OWNERS.flatMap(({ owner, exchanges, domains }) =>
      [`owner ${owner}`, ...exchanges.map(it => `mx ${it}`), ...domains])
    expect(new Set(names).size).toBe(names.length)
    const pattern = /^(?:owner |mx (?:\*\.)?)?[a-z0-9.-]+(?:\.\{country\})?$/
    expect(names.filter(name => !pattern.test(name))).toEqual([])
  })

  it('has the one domain of all mailboxes among the own ones', () => {
    const strange = MAIL_OWNERS.filter(({ domains, mailbox }) =>
      mailbox?.oneDomain !== undefined && !domains.includes(mailbox.oneDomain))
    expect(strange).toEqual([])
  })
})

describe('the name of a mail exchange', () => {
  it.each([
    ['MX1.Mail.ORG', 'mx1.mail.org'], ['mx.mail.org.', 'mx.mail.org'], ['a_b.x.org', 'a_b.x.org'],
  ])('%s is %s', (host, name) => {
    expect(exchangeName(host)).toBe(name)
  })

  it.each([
    '', '.', 'localhost', 'a..b', '*.x.org', 'a b.org', 'x.org\u0000', '<b>.org', 'ü.org',
    '=1+1.org', `${'a'.repeat(64)}.org`, `${'a.'.repeat(126)}org`,
  ])('is none for %j', host => {
    expect(exchangeName(host)).toBeUndefined()
  })

  it.each([
    ['mail.firm.org', 'firm.org', 'mail.*1.org'],
    ['firm-co-uk.mail.protection.outlook.com', 'firm.co.uk',
      '*2-*1-uk.mail.protection.outlook.*1m'],
    ['gmail-smtp-in.l.google.com', 'gmail.com', '*1-smtp-in.l.google.com'],
    ['mx.secret.firm.org', 'secret.firm.org', 'mx.*2.*1.org'],
    ['mail.firm.org', 'secret.firm.org', 'mail.*1.org'],
    ['mx1.host.net', 'firm.org', 'mx1.host.net'],
    ['mail.x.org', 'org', 'mail.x.org'],
  ])('%s of %s is stored as %s', (exchange, domain, masked) => {
    expect(maskExchange(exchange, domain)).toBe(masked)
    expect(unmaskExchange(masked, domain)).toBe(exchange)
  })

  it('is no other one with a record that was changed', () => {
    expect(unmaskExchange('*9.*0.*', 'firm.org')).toBe('..*')
  })
})

const GOOGLE = 'aspmx.l.google.com'
const MICROSOFT = 'firm-org.mail.protection.outlook.com'

describe('the normalized form of an address', () => {
  // The pages that say so are named with the rules in services/mail/owners.ts.
  it.each([
    ['at Gmail', 'jdoe@gmail.com', 'jdoe@gmail.com', 'J.Doe@gmail.com', 'j.d.o.e+news@gmail.com',
      'jdoe@googlemail.com', 'jdoe+a+b@googlemail.com'],
    ['at Outlook', 'j.doe@outlook.com', 'J.Doe+news@outlook.com', 'j.doe+@outlook.com'],
    ['at Hotmail of a country', 'jdoe@hotmail.co.uk', 'jdoe+news@hotmail.co.uk'],
    ['at Yahoo', 'jdoe@yahoo.de', 'jdoe-news@yahoo.de', 'JDoe-a-b@yahoo.de'],
    ['at Yahoo of Brazil', 'jdoe@yahoo.com.br', 'jdoe-news@yahoo.com.br'],
    ['at iCloud', 'jdoe@icloud.com', 'jdoe@me.com', 'jdoe+news@mac.com', 'JDoe@icloud.com'],
    ['at Proton', 'jdoe@proton.me', 'j.doe@protonmail.com', 'j-d_oe+news@pm.me', 'JDOE@proton.me'],
    ['at Fastmail', 'jdoe@fastmail.com', 'jdoe+news@fastmail.com', 'news@jdoe.fastmail.com'],
    ['at another domain of Fastmail', 'jdoe@fastmail.fm', 'jdoe+news@fastmail.fm'],
    ['at Yandex', 'jdoe@yandex.ru', 'jdoe@ya.ru', 'jdoe+news@yandex.com'],
  ])('%s is %s', (_, normalized, ...addresses) => {
    expect(addresses.map(address => normalizedMailbox(address)))
      .toEqual(addresses.map(() => normalized))
  })

  it.each([
    ['dots at Outlook', 'j.doe@outlook.com'], ['tags of other signs', 'j+a@yahoo.com'],
    ['hyphens at Gmail', 'jane-doe@gmail.com'], ['hyphens at AOL', 'jane-doe@aol.com'],
    ['a name that begins with the sign', '+jane@gmail.com'], ['a name of dots', '-@proton.me'],
    ['any other domain', 'j.doe+news@firm.org'], ['a quoted name', '"j.doe+a"@gmail.com'],
    ['a literal', 'j+a@[192.0.2.1]'], ['a domain below Gmail', 'j.doe@sub.gmail.com'],
    ['a domain far below Fastmail', 'news@a.b.fastmail.com'],
    ['a name like Gmail', 'j.doe+a@notgmail.com'], ['no country', 'j-a@yahoo.company'],
  ])('keeps %s', (_, address) => {
    expect(normalizedMailbox(address)).toBe(address)
  })

  it.each([
    ['Google', 'j.doe@firm.org', GOOGLE, 'j.doe+news@firm.org'],
    ['Microsoft', 'j.doe@firm.org', MICROSOFT, 'J.Doe+news@firm.org'],
    ['Proton', 'j.doe@firm.org', 'mail.protonmail.ch', 'j.doe+news@firm.org'],
    ['Fastmail', 'j.doe@firm.org', 'in1-smtp.messagingengine.com', 'j.doe+news@firm.org'],
    ['nobody listed', 'j.doe+news@firm.org', 'mail.firm.org', 'J.Doe+news@firm.org'],
    ['a gateway', 'j.doe+news@firm.org', 'mxa.gslb.pphosted.com', 'j.doe+news@firm.org'],
    ['Yahoo, whose rule is for its own domains', 'j-news@firm.org', 'mta5.am0.yahoodns.net',
      'j-news@firm.org'],
    ['another server than that of the owner of the domain', 'j.doe+a@gmail.com', 'mail.firm.org',
      'j.doe+a@gmail.com'],
    ['its owner', 'jdoe@gmail.com', 'gmail-smtp-in.l.google.com', 'j.doe+a@gmail.com'],
  ])('of a domain served by %s is %s', (_, normalized, exchange, address) => {
    expect(normalizedMailbox(address, exchange)).toBe(normalized)
  })
})
