import { expect, it } from 'vitest'
import { DnsRecords } from '../../../../services/verify/mailboxes/dns-records.ts'
import { checkSpf } from '../../../../services/verify/mailboxes/spf.ts'
import { closeAfterAll } from '../../../support/close-after-all.ts'
import { startDnsServer, type Zone } from '../../../support/mail/dns-server.ts'

const [V4, V6] = ['192.0.2.7', '2001:db8::7']

/** A record, who sends (`ann@` the domain, unless the case says so), and what the record says. */
type Case = readonly [record: string, result: string, address?: string]

const CASES: readonly Case[] = [
  ['v=spf1 ip4:192.0.2.0/24 -all', 'pass'],
  ['v=spf1 ip4:192.0.2.8 -all', 'fail'],
  ['v=spf1 ip4:192.0.2.8 ~all', 'softfail'],
  ['v=spf1 ip4:192.0.2.8 ?all', 'neutral'],
  ['v=spf1 ip4:192.0.2.8', 'neutral'],
  ['v=spf1 -ip4:192.0.2.7 +all', 'fail'],
  ['V=SPF1 IP4:192.0.2.7 -ALL', 'pass'],
  ['v=spf1 ip6:2001:db8::/32 -all', 'pass', V6],
  ['v=spf1 ip4:192.0.2.7 -all', 'pass', '::ffff:192.0.2.7'],
  ['v=spf1 ip6:2001:db8::/32 -all', 'fail'],
  ['v=spf1 a:host.org -all', 'pass'],
  ['v=spf1 a:host.org -all', 'pass', V6],
  ['v=spf1 a:near.org -all', 'fail'],
  ['v=spf1 a:near.org/24 -all', 'pass'],
  ['v=spf1 a:host.org//32 -all', 'pass', '2001:db8:ffff::1'],
  ['v=spf1 mx:mail.org -all', 'pass'],
  ['v=spf1 ptr:host.org -all', 'pass'],
  ['v=spf1 ptr:liar.org -all', 'fail'],
  ['v=spf1 exists:%{ir}.%{l}.list.org -all', 'pass'],
  ['v=spf1 exists:%{i}.list.org -all', 'fail'],
  ['v=spf1 include:yes.org -all', 'pass'],
  ['v=spf1 include:no.org ?all', 'neutral'],
  ['v=spf1 include:none.org -all', 'permerror'],
  ['v=spf1 redirect=yes.org', 'pass'],
  ['v=spf1 redirect=none.org', 'permerror'],
  ['v=spf1 -all redirect=yes.org', 'fail'],
  ['v=spf1 moo=%{d}.org ip4:192.0.2.7 -all', 'pass'],
  ['v=spf1 ip4:192.0.2.7 moo -all', 'permerror'],
  ['v=spf1 ip4:192.0.2.07 -all', 'permerror'],
  ['v=spf1 ip4:192.0.2.7/33 -all', 'permerror'],
  ['v=spf1 a:host.org/33 -all', 'permerror'],
  ['v=spf1 include -all', 'permerror'],
  ['v=spf1 redirect=a.org redirect=b.org', 'permerror'],
  ['v=spf1 exists:%{c}.org -all', 'permerror'],
  ['v=spf1 include:loop.org -all', 'permerror'],
  ['v=spf1 a:x1.org a:x2.org a:x3.org ip4:192.0.2.7 -all', 'permerror'],
  [`v=spf1${' a:near.org'.repeat(10)} ip4:192.0.2.7 -all`, 'pass'],
  [`v=spf1${' a:near.org'.repeat(11)} ip4:192.0.2.7 -all`, 'permerror'],
  ['v=spf1 include:broken.org ip4:192.0.2.7 -all', 'temperror'],
  ['v=spf10 ip4:192.0.2.7 -all', 'none'],
]

const tested = CASES.map(([record], index): [string, Zone] =>
  [`case${index}.org`, { txt: ['other', record] }])
const server = closeAfterAll(await startDnsServer({
  ...Object.fromEntries(tested),
  'host.org': { a: [V4], aaaa: [V6] },
  'near.org': { a: ['192.0.2.200'] },
  'liar.org': { a: ['192.0.2.200'] },
  'mail.org': { mx: [[10, 'host.org']] },
  'yes.org': { txt: [`v=spf1 ip4:${V4} -all`] },
  'no.org': { txt: ['v=spf1 -all'] },
  'none.org': { txt: ['hello'] },
  'loop.org': { txt: ['v=spf1 include:loop.org -all'] },
  'broken.org': { fault: 'SERVFAIL' },
  'two.org': { txt: ['v=spf1 +all', 'v=spf1 -all'] },
  'probe.org': { txt: ['v=spf1 a:host.org -all'] },
  '7.2.0.192.in-addr.arpa': { ptr: ['liar.org', 'HOST.org'] },
  '7.2.0.192.ann.list.org': { a: ['127.0.0.2'] },
}))
const dns = new DnsRecords({ servers: [server.address], timeoutMs: 60_000 })

const numbered = CASES.map(([record, result, address = V4], index) =>
  [record, result, address, index] as const)
it.each(numbered)(
  'the record "%s" says %s of %s', async (_record, result, address, index) => {
    const from = { address, helo: 'probe.org', sender: `ann@case${index}.org` }
    expect(await checkSpf(dns, from)).toBe(result)
  })

it('the null sender counts as the name of HELO, and two records are an error', async () => {
  const sent = { address: V4, helo: 'probe.org', sender: '' }
  expect(await checkSpf(dns, sent)).toBe('pass')
  expect(await checkSpf(dns, { ...sent, sender: 'ann@two.org' })).toBe('permerror')
  expect(await checkSpf(dns, { ...sent, sender: 'ann@missing.org' })).toBe('none')
})
