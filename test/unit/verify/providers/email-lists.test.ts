import { describe, expect, it } from 'vitest'
import { builtInLists } from '../../../../services/verify/providers/email-lists.ts'
import {
  COMMON_PROVIDERS, FURTHER_PROVIDERS, RELAY_DOMAINS,
} from '../../../../services/verify/providers/built-in-lists.ts'

describe('a disposable mail domain', () => {
  it.each([
    ['mailinator.com', true], ['inbox.mailinator.com', true], ['yopmail.com', true],
    // Observed, not submitted.
    ['webxios.pro', true], ['b5zuw.anonbox.net', true],
    ['gmail.com', false], ['21cn.com', false], ['vip.21cn.com', false], ['sify.com', false],
    // Anybody registers names below these, which lists call disposable.
    ['jane.mooo.com', false], ['mail.jane.us.to', false], ['shop.eu.org', false],
    ['jane.f5.si', false],
  ])('%s: %s', (domain, expected) => {
    expect(builtInLists.lookUp(domain).disposable).toBe(expected)
  })

  it('is never a provider of permanent mailboxes, nor a relay', () => {
    const permanent = [...COMMON_PROVIDERS, ...FURTHER_PROVIDERS, ...RELAY_DOMAINS]
    expect(permanent.filter(domain => builtInLists.lookUp(domain).disposable)).toEqual([])
  })
})

describe('a free mail domain', () => {
  it.each([
    ['gmail.com', true], ['qq.com', true], ['web.de', true], ['tutanota.com', true],
    ['keemail.me', true], ['hey.com', true], ['zoho.eu', true], ['yahoo.cl', true],
    ['yahoo.ne.jp', true], ['globo.com', true],
    ['ietf.org', false], ['mailinator.com', false],
  ])('%s: %s', (domain, expected) => {
    expect(builtInLists.lookUp(domain).free).toBe(expected)
  })
})

describe('a role', () => {
  it.each([
    'sales', 'Support', 'no-reply', 'noreply', 'do_not_reply', 'drive-shares-noreply', 'info+news',
    'sales2', 'info.berlin', 'info-de', 'uk.sales', 'sales-emea', 'infofirma', 'firma.info',
    'customer.service', 'vertrieb', 'datenschutz', 'Geschäftsführung', 'geschaeftsfuehrung', 'büro',
    'buero2', 'comptabilité', 'service-client', 'facturación', 'rrhh', 'ufficio.acquisti',
    'qualità', 'vendas', 'klantenservice', 'sekretariat', 'sprzedaż', 'förs\u00e4ljning',
    'regnskab', 'myynti', 'účetní', 'ügyfélszolgálat', 'vânzări', 'satış', 'buhgalteria', 'продажи',
    'Приёмная', 'πωλήσεις', '営業', 'サポート', '客服', '销售', '고객센터', 'ketoan',
  ])('is named by %s', local => {
    expect(builtInLists.isRole(local, 'firma.example')).toBe(true)
  })

  it.each([
    'jane.doe', 'jane', '+sales', 'sydney', 'alexa', 'paris', 'india', 'berlin', 'j.sales.doe',
    'infomania', 'mark', 'grant', 'page', 'will', 'sales.jane', 'support.jane.doe', '2024', '',
  ])('is not named by %s', local => {
    expect(builtInLists.isRole(local, 'firma.example')).toBe(false)
  })
})
