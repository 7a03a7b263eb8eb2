import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { EgressReport } from '../../../services/verify/mailboxes/egress-check.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { verifyConfig } from '../../../services/verify/config.ts'
import { logEgresses } from '../../../services/verify/main.ts'
import { runCommand } from '../../support/admin.ts'
import { startDnsServer, type Zone } from '../../support/mail/dns-server.ts'
import { type Script, startScripted } from '../../support/mail/mail-servers.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'

const stops: (() => unknown)[] = []
beforeEach(() => { process.exitCode = 0 })
afterEach(async () => {
  vi.unstubAllEnvs()
  process.exitCode = 0
  await Promise.all(stops.splice(0).map(stop => stop()))
})

const [HELO, OURS] = ['probe.verify.org', '93.184.216.7']
const [ZONE, REVERSED] = ['bl.example', '7.216.184.93']
const EGRESS = { name: 'one', helo: HELO, publicAddress: OURS }
/** What the DNS has for an egress without a fault. */
const GOOD: Readonly<Record<string, Zone>> = {
  [HELO]: { a: [OURS], txt: ['v=spf1 a -all'] },
  [`${REVERSED}.in-addr.arpa`]: { ptr: [HELO] },
  [`2.0.0.127.${ZONE}`]: { a: ['127.0.0.2'] },
}

type Settings = Readonly<Record<string, string>>

/** The settings of verify for an egress, with a DNS of its own. */
async function settingsOf (
  egress: object, zones: Readonly<Record<string, Zone>> = {}, more: Settings = {}
): Promise<Settings> {
  const dns = await startDnsServer({ ...GOOD, ...zones })
  stops.push(dns.stop)
  return {
    SMTP_EGRESS: JSON.stringify([{ ...EGRESS, ...egress }]),
    DNS_SERVERS: dns.address,
    DNS_TIMEOUT_MS: '60000',
    SMTP_DNSBL_ZONES: ZONE,
    ...more,
  }
}

/** What the command prints, as a line for each finding. */
async function findingsOf (settings: Settings, words = ''): Promise<readonly string[]> {
  for (const [name, value] of Object.entries(settings)) vi.stubEnv(name, value)
  const printed = await runCommand(`egress --json ${words}`.trim())
  const { egresses } = JSON.parse(printed) as { egresses: readonly EgressReport[] }
  return egresses.flatMap(({ findings }) => findings)
    .map(({ check, level, text }) => `${level} ${check}: ${text}`)
}

it('an egress without a fault is what mail servers expect', async () => {
  const settings = await settingsOf({ sender: 'ann@verify.org' }, {
    'verify.org': { mx: [[10, 'mx.verify.org']], txt: [`v=spf1 ip4:${OURS} -all`] },
  })
  expect(await findingsOf(settings)).toEqual([
    `good reverse name: ${OURS} is ${HELO}, which leads back to it`,
    `good helo: ${HELO} resolves to ${OURS}`,
    `good spf: verify.org says of ${OURS}: it may send`,
    `good block list: ${OURS} is not on ${ZONE}`,
    'good sender: verify.org accepts mail',
  ])
  expect(process.exitCode).toBe(0)
})

const PTR = `${REVERSED}.in-addr.arpa`
it.each<readonly [string, object, Readonly<Record<string, Zone>>]>([
  [`fault reverse name: ${OURS} has none`, {}, { [PTR]: {} }],
  [`fault reverse name: ${OURS} is a.org, which does not lead back to it`, {},
    { [PTR]: { ptr: ['a.org'] }, 'a.org': { a: ['93.184.216.8'] } }],
  [`advice reverse name: ${OURS} is a.org, which leads back to it, but HELO says ${HELO}`, {},
    { [PTR]: { ptr: ['a.org'] }, 'a.org': { a: [OURS] } }],
  [`advice reverse name: ${OURS} is 93-184-216-7.dsl.org, which leads back to it, but looks like ` +
    'a dial-up line', {},
  { [PTR]: { ptr: ['93-184-216-7.dsl.org'] }, '93-184-216-7.dsl.org': { a: [OURS] } }],
  [`unknown reverse name: the resolvers did not answer the question for reverse name of ${OURS}`,
    {}, { [PTR]: { fault: 'SERVFAIL' } }],
  [`fault helo: ${HELO} resolves to 93.184.216.8, not to ${OURS}`, {},
    { [HELO]: { a: ['93.184.216.8'], txt: ['v=spf1 +all'] } }],
  [`fault spf: ${HELO} says of ${OURS}: it may not send`, {},
    { [HELO]: { a: [OURS], txt: ['v=spf1 -all'] } }],
  [`advice spf: ${HELO} says of ${OURS}: nothing, as it has no SPF record`, {},
    { [HELO]: { a: [OURS] } }],
  ['fault sender: verify.org accepts no mail, so that servers refuse it as a sender',
    { sender: 'ann@verify.org' }, { 'verify.org': { mx: [[0, '.']], txt: ['v=spf1 +all'] } }],
  [`fault block list: ${OURS} is on ${ZONE} (127.0.0.3): spam seen`, {},
    { [`${REVERSED}.${ZONE}`]: { a: ['127.0.0.3'], txt: ['spam seen'] } }],
  // Codes of a list that refuses the resolver, and of a zone that somebody else has taken.
  [`unknown block list: ${ZONE} does not answer these resolvers`, {},
    { [`${REVERSED}.${ZONE}`]: { a: ['127.255.255.254'] } }],
  [`unknown block list: ${ZONE} does not answer these resolvers`, {},
    { [`${REVERSED}.${ZONE}`]: { a: ['93.184.216.34'] } }],
  [`unknown block list: ${ZONE} does not answer these resolvers`, {},
    { [`2.0.0.127.${ZONE}`]: {} }],
  [`advice address: assumed from the name ${HELO}: ${OURS}`, { publicAddress: undefined }, {}],
  [`fault address: unknown, because the name ${HELO} has no address`,
    { publicAddress: undefined }, { [HELO]: {} }],
])('the command says: %s', async (expected, egress, zones) => {
  expect(await findingsOf(await settingsOf(egress, zones))).toContain(expected)
  expect(process.exitCode).toBe(expected.startsWith('fault') ? 1 : 0)
})

it('the text says what to do, and to whom', async () => {
  const settings = await settingsOf({}, { [PTR]: {} })
  for (const [name, value] of Object.entries(settings)) vi.stubEnv(name, value)
  expect((await runCommand('egress')).split('\n').slice(0, 3)).toEqual([
    `one  ${HELO}, the null sender`,
    `  FAULT    reverse name  ${OURS} has none`,
    `                         have the provider of ${OURS} set its reverse name to ${HELO}`,
  ])
})

it('without an egress the command says what to set', async () => {
  vi.stubEnv('SMTP_EGRESS', '')
  await expect(runCommand('egress')).rejects.toThrow('set SMTP_EGRESS or SMTP_HELO')
})

/** A mail server that replies so, and the settings to reach it as mx.mail.org. */
async function startMailServer (script: Script) {
  const heard: string[] = []
  const { port, stop } = await startScripted(script, heard)
  stops.push(stop)
  const zones: Readonly<Record<string, Zone>> = {
    'mail.org': { mx: [[10, 'mx.mail.org']] }, 'mx.mail.org': { a: ['127.0.0.1'] },
  }
  return { heard, zones, settings: { SMTP_PORT: String(port) } }
}

it('a mail server is greeted, and says which address it sees', async () => {
  const { heard, zones, settings } = await startMailServer({
    EHLO: '250-mx.mail.org at your service, [93.184.216.8]\r\n250 PIPELINING',
  })
  const found = await findingsOf(await settingsOf({}, zones, settings), '--to mail.org')
  expect(found.slice(0, 3)).toEqual([
    'good connection: mx.mail.org takes our name: 250 mx.mail.org at your service, [93.184.216.8]',
    `fault address: the mail server sees 93.184.216.8, not ${OURS}`,
    'fault reverse name: 93.184.216.8 has none',
  ])
  expect(heard).toEqual([`EHLO ${HELO}`, 'QUIT'])
  expect(process.exitCode).toBe(1)
})

it('a mail server that refuses us, or that nothing leads to, is a fault', async () => {
  const { zones, settings } = await startMailServer({
    GREETING: '554 5.7.1 your address is blocked',
  })
  const [refused] = await findingsOf(await settingsOf({}, zones, settings), '--to mail.org')
  expect(refused).toBe('fault connection: mx.mail.org replies 554 5.7.1 your address is blocked')
  const closed = await settingsOf({}, zones, { SMTP_PORT: '9' })
  expect((await findingsOf(closed, '--to mail.org'))[0])
    .toBe('fault connection: no answer of mail.org: unreachable')
  const proxy = await settingsOf({ proxy: 'socks5://127.0.0.1:9' }, zones, settings)
  expect((await findingsOf(proxy, '--to mail.org'))[0])
    .toBe('fault connection: the proxy or the address of this egress does not work')
})

it('verify logs the faults at its start, if smtp-probe is used', async () => {
  const lines: object[] = []
  const log = {
    info: (fields: object, text: string) => { lines.push([fields, text]) },
    warn: (fields: object, text: string) => { lines.push([fields, text]) },
  }
  const settings = await settingsOf({ address: '192.0.2.1' })
  const used = { PROVIDERS: '{"email-validation":["smtp-probe"]}' }
  const load = (more: Settings) =>
    loadConfig(verifyConfig, { ...STAGE_ENVIRONMENT, ...settings, ...more })
  await logEgresses(load({ PROVIDERS: '{}' }), log as never)
  expect(lines).toEqual([])
  await logEgresses(load(used), log as never)
  expect(lines).toEqual([[
    { egress: 'one', check: 'address' },
    'mail servers may refuse this egress: this machine cannot connect from 192.0.2.1; give ' +
      '192.0.2.1 to an interface of this machine, or to its container',
  ]])
  lines.length = 0
  await logEgresses(load({ ...used, SMTP_EGRESS: JSON.stringify([EGRESS]) }), log as never)
  expect(lines).toEqual([[{ egress: 'one' }, 'no fault found in what mail servers see']])
})
