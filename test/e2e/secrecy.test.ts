import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { connectRedis } from '../../services/lib/redis.ts'
import { createTestPartner, feedContacts } from '../support/partner.ts'
import { runJob, startWorld, type World } from '../support/world.ts'

let world: World
beforeAll(async () => { world = await startWorld() })
afterAll(async () => { await world.stop() })

/** Digits and names that stand nowhere else; written as a client may write them. */
const serial = String(Date.now()).slice(-4)
const phones = [`+1212736${serial}`, `(415) 867-${serial}`, `+44 20 7946 ${serial}`]
const emails = [`canary.${serial}x@ietf.org`, `Zeisig${serial}@mailinator.com`]
const label = `label-${serial}-geheim`

function forms (contact: string): readonly Buffer[] {
  const digits = contact.replace(/\D/g, '')
  const texts = contact.includes('@') || contact === label
    ? [contact, contact.toLowerCase(), contact.split('@')[0] ?? '']
    : [contact, `+${digits}`, digits.slice(-10), contact.replace(/^\+\d+ /, '')]
  return texts.flatMap(text => [
    Buffer.from(text),
    Buffer.from(text, 'utf16le'),
    Buffer.from(Buffer.from(text).toString('hex')),
    ...base64Cores(text),
    Buffer.from(encodeURIComponent(text)),
  ])
}

/** What base64 makes of the text at each of the three alignments, without the edges. */
function base64Cores (text: string): readonly Buffer[] {
  return [0, 1, 2].map(shift => {
    const encoded = Buffer.from('\0'.repeat(shift) + text).toString('base64').replace(/=+$/, '')
    return Buffer.from(encoded.slice(4, -2))
  }).filter(core => core.length >= 8)
}

function filesBelow (folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map(name => join(folder, name))
    .filter(path => statSync(path, { throwIfNoEntry: false })?.isFile())
}

function findings (folder: string, contacts: readonly string[]): readonly string[] {
  const wanted = contacts.flatMap(forms)
  return filesBelow(folder).filter(path => {
    const bytes = readFileSync(path)
    return wanted.some(form => bytes.includes(form))
  })
}

describe('what the stores keep', () => {
  it('shows no contact and no label in clear, in any encoding', async () => {
    const folder = inject('stackDataDir')
    const metadata = { campaign: label }
    const done = await runJob(world.live, {
      service: 'phone-validation', inputs: phones, countryCode: 'US', metadata,
    })
    await runJob(world.live, { service: 'email-validation', inputs: emails, metadata })
    const partner = await createTestPartner(world.env, { usd: '1' })
    const contacts = phones.map(input => ({ input, reference: undefined, countryCode: undefined }))
    expect((await feedContacts(partner, contacts)).results).toHaveLength(phones.length)
    expect(done.rows.map(row => row.input)).toEqual(phones)
    expect(findings(folder, [...phones, ...emails, label])).toEqual([])
  })

  it('would be caught showing one', async () => {
    const canary = `+1646555${serial}`
    const redis = connectRedis(world.env.REDIS_STATE_URL ?? '')
    await redis.set('control', Buffer.from(canary).toString('base64'))
    await redis.del('control')
    redis.disconnect()
    expect(findings(inject('stackDataDir'), [canary]).length).toBeGreaterThan(0)
  })
})
