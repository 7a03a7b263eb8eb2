import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { canonicalEmail } from '../../services/normalize/email.ts'
import type { ProviderAnswer } from '../../services/verify/provider.ts'
import { MAIL_ZONES, MAILBOXES_TABLE, SERVERS } from '../support/data/mailboxes.ts'
import { startDnsServer, type DnsServer } from '../support/mail/dns-server.ts'
import { eventually } from '../support/eventually.ts'
import { startMailServers, type MailServers } from '../support/mail/mail-servers.ts'
import { request, smtpProviderOf } from '../support/mail/smtp-probe.ts'

let mail: MailServers
let dns: DnsServer
beforeAll(async () => {
  mail = await startMailServers(SERVERS)
  dns = await startDnsServer({ ...mail.zones, ...MAIL_ZONES })
})
afterAll(async () => { await Promise.all([mail.stop(), dns.stop()]) })

function seen ({ verdict, retry }: ProviderAnswer): readonly [string, string] {
  const { status, reason, confidence, fields } = verdict
  const { suggestion, ...flags } = fields
  const blank = ['disposable', 'role', 'free']
  const columns = Object.entries(flags)
    .filter(([name, value]) => value === 'true' || !blank.includes(name))
    .map(([name, value]) => value === 'true' ? name : `-${name}`)
  if (suggestion !== undefined) columns.push(`suggestion=${suggestion}`)
  return [`${status} ${reason} ${confidence}${retry ? ' later' : ''}`, columns.join(' ')]
}

/** Whose servers never reply: a short timeout suffices for them. */
const isSilent = (address: string) => /@(silent|slow-rcpt)\.org$/.test(address)

async function verdicts (inputs: readonly string[]) {
  const canonical = inputs.map((input) => canonicalEmail(input))
  const rows = canonical.flatMap((it, row) => it.ok ? [{ row, canonical: it.canonical }] : [])
  const silent = rows.filter((row) => isSilent(row.canonical))
  const answers = await Promise.all([
    smtpProviderOf({ dns, mail })
      .check(rows.filter((row) => !silent.includes(row)), request([])[1]),
    smtpProviderOf({ dns, mail }, { replyTimeoutMs: 200 }).check(silent, request([])[1]),
  ])
  const byRow = new Map(answers.flat().map((answer) => [answer.row, answer]))
  return inputs.map((input, row) => {
    const answer = byRow.get(row)
    const form = canonical[row]
    if (answer !== undefined) return [input, ...seen(answer)]
    return [input, `preflight ${form?.ok === false ? form.reason : 'unanswered'}`, '']
  })
}

describe('an e-mail address', () => {
  it('has the expected verdict in every situation, with real servers', async () => {
    expect(MAILBOXES_TABLE.length).toBeGreaterThanOrEqual(60)
    expect(await verdicts(MAILBOXES_TABLE.map(([input]) => input)))
      .toEqual(MAILBOXES_TABLE.map(([input, expected, columns = '']) => [input, expected, columns]))
  })

  it('gets no mail: servers receive few verbs, the null sender and the service name', async () => {
    const all = [...mail.heard.values()].flat()
    const verbs = new Set(all.map((line) => line.split(/[ :]/)[0]))
    expect([...verbs].toSorted()).toEqual(['EHLO', 'HELO', 'MAIL', 'QUIT', 'RCPT', 'STARTTLS'])
    expect(new Set(mail.heard.get('mx.mail.org')?.filter((it) => it.startsWith('MAIL'))))
      .toEqual(new Set(['MAIL  TLS probe.verify.org']))
    await eventually(() => expect(mail.heard.get('mx.old.org')).toEqual([
      'EHLO probe.verify.org', 'HELO probe.verify.org', 'MAIL FROM:<>', 'RCPT TO:<jane@old.org>',
      expect.stringMatching(/^RCPT TO:<[a-z]{6}\.[a-z]{8}\d{3}@old\.org>$/), 'QUIT',
    ]))
  })
})
