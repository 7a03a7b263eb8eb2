import { expect, it } from 'vitest'
import type { RawMessage } from '../../../../services/lib/bus.ts'
import { FatalError, InfrastructureError } from '../../../../services/lib/errors.ts'
import { createCodec, localSource } from '../../../../services/lib/registry.ts'
import type { Opened } from '../../../../services/lib/wire.ts'
import { openContent, readEnvelope } from '../../../../services/ops/dead/content.ts'
import { sealedContact } from '../../../support/feeds.ts'
import { liveMessage } from './memory-dead.ts'

const CANARY = '+12127365000'
const codec = createCodec(localSource())
const key = Buffer.alloc(32, 1)
const partners = {
  keysOf: async (name: string) => name === 'acme' ? [key] as const : undefined,
}
const wireOf = (opened: Opened, seen: RawMessage[] = []) => ({
  open: async (raw: RawMessage) => {
    seen.push(raw)
    return opened
  },
})
const dead = (topic: string, value: Buffer | null) =>
  liveMessage({ topic: 'any.dead', value, headers: { dead_topic: topic } })

async function contact (partner: string, sealedBy = key) {
  const sent = sealedContact(sealedBy, CANARY, { partner, reference: CANARY, sequence: 1 })
  const value = await codec.encode('feeds.submitted-value', sent)
  return dead(`feeds.${partner}.submitted`, value)
}

it('reads an envelope without telling what is sealed', async () => {
  const shown = await readEnvelope(codec, await contact('acme'))
  expect(shown).toMatchObject({ service: 'whatsapp', reference: '12 bytes', end: false })
  expect(JSON.stringify(shown)).not.toContain(CANARY)
})

it('says only that garbage is garbage, and that what is down is down', async () => {
  const garbage = dead('rows.missed.small.whatsapp', Buffer.from(CANARY))
  expect(await readEnvelope(codec, garbage)).toBe('not decodable')
  expect(await readEnvelope(codec, dead('nowhere', Buffer.from(CANARY)))).toBe('not decodable')
  expect(await readEnvelope(codec, dead('jobs.settled', null))).toBe('not decodable')
  const down = { decode: async () => { throw new InfrastructureError('down') } }
  await expect(readEnvelope(down, garbage)).rejects.toThrow('down')
})

it('opens rows as the stage would have, in the name of the topic they came from', async () => {
  const seen: RawMessage[] = []
  const message = { rows: () => ({ inputs: [CANARY] }) }
  const wire = wireOf({ kind: 'message', message } as unknown as Opened, seen)
  const raw = dead('rows.missed.small.whatsapp', Buffer.alloc(1))
  expect(await openContent({ codec, wire, partners }, raw)).toEqual({ inputs: [CANARY] })
  expect(seen.map(({ topic }) => topic)).toEqual(['rows.missed.small.whatsapp'])
})

it('says why rows are not to be opened', async () => {
  const raw = dead('rows.missed.small.whatsapp', Buffer.alloc(1))
  const contentBy = (opened: Opened) => openContent({ codec, wire: wireOf(opened), partners }, raw)
  expect(await contentBy({ kind: 'dead', reason: 'seal_broken' }))
    .toBe('not to be opened: seal_broken')
  expect(await contentBy({ kind: 'skip', why: 'no_key' })).toBe('not to be opened: no_key')
  const broken = { rows: () => { throw new Error(CANARY) } }
  expect(await contentBy({ kind: 'message', message: broken } as unknown as Opened))
    .toBe('not to be opened: not decodable')
  const none = { rows: () => undefined }
  expect(await contentBy({ kind: 'message', message: none } as unknown as Opened))
    .toBe('it carries no rows')
  const lacking = { open: async () => { throw new FatalError('KEY_RING lacks key "2"') } }
  await expect(openContent({ codec, wire: lacking, partners }, raw)).rejects.toThrow(FatalError)
})

it('opens a contact by the key of its partner', async () => {
  const parts = { codec, wire: wireOf({ kind: 'skip', why: 'x' }), partners }
  expect(await openContent(parts, await contact('acme'))).toBe(CANARY)
  expect(await openContent(parts, await contact('acme', Buffer.alloc(32, 2))))
    .toBe('not to be opened: seal_broken')
  expect(await openContent(parts, await contact('other')))
    .toBe('not to be opened: unknown_partner')
  expect(await openContent(parts, dead('feeds.acme.submitted', Buffer.from(CANARY))))
    .toBe('not to be opened: not decodable')
  const marker = await codec.encode('feeds.submitted-value', {
    ...sealedContact(key, '', { partner: 'acme', sequence: 1 }), sealed: null, end: true,
  })
  expect(await openContent(parts, dead('feeds.acme.submitted', marker)))
    .toBe('it carries no rows')
})
