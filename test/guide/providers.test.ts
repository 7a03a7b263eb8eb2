import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { loadConfig } from '../../services/runtime/platform/config.ts'
import { lookupConfig } from '../../services/lookup/config.ts'
import { VENDOR_PRESETS } from '../../services/jobs/checks.ts'
import { verifyConfig } from '../../services/verify/config.ts'
import { readHttpProviders } from '../../services/verify/providers/http-vendor.ts'
import { createVendorProvider } from '../../services/verify/providers/http.ts'
import type { Probed } from '../../services/verify/mailboxes/conversation.ts'
import { STAGE_ENVIRONMENT } from '../support/stacks/stage-environment.ts'
import { emailVerdict } from '../support/mail/smtp-probe.ts'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const guide = read('deploy/docs/providers.md')

const exported = (name: string) =>
  new RegExp(`export ${name}='([^']*)'`).exec(guide)?.[1] ?? `no ${name}`

/** Everything that the probe of a mailbox can find. */
const PROBED: readonly Probed[] = [
  ...([
    'accepted', 'no_mailbox', 'no_mail', 'full', 'greylisted', 'blocked', 'unreachable',
    'no_answer', 'unclear', 'late',
  ] as const).map((mailbox) => ({ mailbox })),
  ...(['no_mailbox', 'no_mail', 'full'] as const).map((mailbox) =>
    ({ mailbox, byWords: true } as const)),
  { mailbox: 'accepted', catchAll: true },
  { mailbox: 'accepted', catchAll: false },
  { mailbox: 'accepted', acceptance: 'truthful' },
  { mailbox: 'accepted', acceptance: 'accepts_any' },
]

const stops: (() => void)[] = []
afterEach(() => { for (const stop of stops.splice(0)) stop() })

/** A vendor that knows of numbers that end in an even digit. */
async function startVendor (): Promise<string> {
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    let text = ''
    for await (const piece of request) text += String(piece)
    const { items } = JSON.parse(text) as { items: { ref: string, number: string }[] }
    const results = items.map(({ ref, number }) =>
      ({ ref, registered: Number(number.at(-1)) % 2 === 0 }))
    response.end(JSON.stringify({ results }))
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  stops.push(() => { server.close() })
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}

describe('the guide to providers', () => {
  it('describes a vendor without fault', () => {
    const example = /```json\n([^]*?)```/.exec(guide)?.[1] ?? ''
    const { faults, providers } = readHttpProviders(JSON.parse(example) as unknown[])
    expect(faults).toEqual([])
    expect(providers[0]?.services).toEqual(['whatsapp', 'telegram'])
  })

  it('describes a vendor that takes batches without fault', () => {
    const [, , example = ''] = guide.split('```json\n')
    const { faults, providers } = readHttpProviders([JSON.parse(example.split('```')[0] ?? '')])
    expect(faults).toEqual([])
    expect(providers[0]?.batch?.idempotent).toBe(true)
  })

  it('has a table of all presets, with their services, keys and checks', () => {
    const line = /^\| `(http:[a-z-]+)`[^|]*\| (.*) \| `(VENDOR_\w+)`[^|]*\| (.*) \|$/gm
    const rows = [...guide.matchAll(line)]
    const listed = rows.map(([, name, services, key, checks]) => [name, services, key, checks])
    const presets = [...VENDOR_PRESETS].map(([name, { key, checks, vendor }]) => {
      const services = (vendor as { services: string[] }).services.map((slug) => `\`${slug}\``)
      const text = services.join(', ').replace('`carrier-single`, `carrier-lookup`', '`carrier-*`')
      return [name, text, key.setting, checks.map((check) => `\`${check}\``).join(', ')]
    })
    expect(listed.toSorted()).toEqual(presets.toSorted())
  })

  it('documents every outcome of a mailbox of the code', async () => {
    const rows = [...guide.matchAll(/\| `(\w+)`[^|]* \| `(\w+)` \| (\d+) \|/g)]
      .map(([, ...cells]) => cells.join(' '))
    const outcomes = await Promise.all(PROBED.map(async (probed) => {
      const { status, reason, confidence } =
        await emailVerdict('jane@ietf.org', { mail: 'accepts', probed })
      return `${status} ${reason} ${confidence}`
    }))
    expect(rows).toHaveLength(18)
    expect(rows.filter((row) => !outcomes.includes(row))).toEqual([])
  })

  it('names only keys that there are', () => {
    const keys = new Set([...guide.matchAll(/`([A-Z]+(?:_[A-Z]+)+)[`=]/g)].map(([, key]) => key))
    const known = [verifyConfig, lookupConfig].flatMap(({ properties }) => Object.keys(properties))
    expect([...keys].filter((key) => !known.includes(key ?? ''))).toEqual([])
    expect(keys.size).toBeGreaterThan(15)
  })
})

it('the guide\'s way to WhatsApp and Telegram ' +
  'is a configuration that verifies numbers', async () => {
  const url = await startVendor()
  const config = loadConfig(verifyConfig, {
    ...STAGE_ENVIRONMENT,
    PROVIDERS: exported('PROVIDERS'),
    HTTP_PROVIDERS: exported('HTTP_PROVIDERS').replace('https://api.vendor.example', url),
  })
  expect(config.PROVIDERS).toMatchObject({ whatsapp: ['http:1'], telegram: ['http:1'] })
  const [vendor] = readHttpProviders(config.HTTP_PROVIDERS).providers
  for (const service of ['whatsapp', 'telegram'] as const) {
    const answers = await createVendorProvider(vendor!).check(
      [{ row: 0, canonical: '+12127365000' }, { row: 1, canonical: '+12127365001' }],
      {
        service,
        mode: 'live',
        signal: new AbortController().signal,
        deadlineMs: Date.now() + 5_000,
      })
    expect(answers.map(({ row, verdict: { status, reason, fields } }) =>
      [row, status, reason, fields])).toEqual([
      [0, 'valid', 'registered', { [service]: 'true' }],
      [1, 'invalid', 'not_registered', { [service]: 'false' }],
    ])
  }
})
