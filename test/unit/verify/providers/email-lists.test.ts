import { describe, expect, it } from 'vitest'
import { builtInLists } from '../../../../services/verify/providers/email-lists.ts'
import {
  COMMON_PROVIDERS, FURTHER_PROVIDERS, RELAY_DOMAINS,
} from '../../../../services/verify/providers/built-in-lists.ts'

it('a provider of permanent mailboxes, or a relay, is never a disposable mail domain', () => {
  const permanent = [...COMMON_PROVIDERS, ...FURTHER_PROVIDERS, ...RELAY_DOMAINS]
  expect(permanent.filter(domain => builtInLists.lookUp(domain).disposable)).toEqual([])
})

it.each([
  ['inbox.mailinator.com', true], ['b5zuw.anonbox.net', true], ['vip.21cn.com', false],
  // Anybody registers names below these, which lists call disposable.
  ['mail.jane.us.to', false], ['shop.eu.org', false],
])('below a listed mail domain, %s is disposable: %s', (domain, expected) => {
  expect(builtInLists.lookUp(domain).disposable).toBe(expected)
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
