import { expect, it } from 'vitest'
import type { RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import { FatalError, InfrastructureError } from '../../../../services/runtime/platform/errors.ts'
import { createCodec, localSource } from '../../../../services/runtime/kafka/registry.ts'
import type { Decoded } from '../../../../services/runtime/engine/stage.ts'
import {
  formatContent, formatEnvelope, formatHeaders, openContent, readEnvelope, safeText,
} from '../../../../services/admin/dead/content.ts'
import { sealedContact } from '../../../support/feeds/feeds.ts'
import { liveMessage } from './memory-dead.ts'

const CANARY = '+12127365000'
const codec = createCodec(localSource())
const key = Buffer.alloc(32, 1)
const partners = {
  keysOf: async (name: string) => name === 'acme' ? [key] as const : undefined,
}
const codecThatOpens = (opened: Decoded, seen: RawMessage[] = []) => ({
  decode: async (raw: RawMessage) => {
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

it('the envelope of a dead letter is read without sealed content', async () => {
  const envelope = await readEnvelope(codec, await contact('acme'))
  expect(envelope).toMatchObject({ service: 'whatsapp', reference: '12 bytes', end: false })
  expect(JSON.stringify(envelope)).not.toContain(CANARY)
})

it('undecodable dead letters are reported without their bytes, outages are thrown', async () => {
  const garbage = dead('rows.to-verify.small.whatsapp', Buffer.from(CANARY))
  expect(await readEnvelope(codec, garbage)).toBe('not decodable')
  expect(await readEnvelope(codec, dead('nowhere', Buffer.from(CANARY)))).toBe('not decodable')
  expect(await readEnvelope(codec, dead('jobs.settled', null))).toBe('not decodable')
  const down = { decode: async () => { throw new InfrastructureError('down') } }
  await expect(readEnvelope(down, garbage)).rejects.toThrow('down')
})

it('rows of a dead letter are opened with the topic that they came from', async () => {
  const seen: RawMessage[] = []
  const message = { rows: () => ({ inputs: [CANARY] }) }
  const messageCodec = codecThatOpens({ kind: 'message', message } as unknown as Decoded, seen)
  const raw = dead('rows.to-verify.small.whatsapp', Buffer.alloc(1))
  expect(await openContent({ codec, messageCodec, partners }, raw)).toEqual({ inputs: [CANARY] })
  expect(seen.map(({ topic }) => topic)).toEqual(['rows.to-verify.small.whatsapp'])
})

it('rows of a dead letter that cannot be opened have a reason', async () => {
  const raw = dead('rows.to-verify.small.whatsapp', Buffer.alloc(1))
  const contentBy = (opened: Decoded) =>
    openContent({ codec, messageCodec: codecThatOpens(opened), partners }, raw)
  expect(await contentBy({ kind: 'dead', reason: 'seal_broken' }))
    .toBe('cannot be opened: seal_broken')
  expect(await contentBy({ kind: 'skip', why: 'no_key' })).toBe('cannot be opened: no_key')
  const broken = { rows: () => { throw new Error(CANARY) } }
  expect(await contentBy({ kind: 'message', message: broken } as unknown as Decoded))
    .toBe('cannot be opened: not decodable')
  const none = { rows: () => undefined }
  expect(await contentBy({ kind: 'message', message: none } as unknown as Decoded))
    .toBe('the message contains no rows')
  const lacking = {
    decode: async () => { throw new FatalError('RESULTS_ROOT_KEYS lacks key "2"') },
  }
  await expect(openContent({ codec, messageCodec: lacking, partners }, raw))
    .rejects.toThrow(FatalError)
})

it('a dead contact of a feed is opened with the key of its partner', async () => {
  const deps = { codec, messageCodec: codecThatOpens({ kind: 'skip', why: 'x' }), partners }
  expect(await openContent(deps, await contact('acme'))).toBe(CANARY)
  expect(await openContent(deps, await contact('acme', Buffer.alloc(32, 2))))
    .toBe('cannot be opened: seal_broken')
  expect(await openContent(deps, await contact('other')))
    .toBe('cannot be opened: unknown_partner')
  expect(await openContent(deps, dead('feeds.acme.submitted', Buffer.from(CANARY))))
    .toBe('cannot be opened: not decodable')
  const marker = await codec.encode('feeds.submitted-value', {
    ...sealedContact(key, '', { partner: 'acme', sequence: 1 }), sealed: null, end: true,
  })
  expect(await openContent(deps, dead('feeds.acme.submitted', marker)))
    .toBe('the message contains no rows')
})

it('an untrusted text in a dead letter is made safe for a terminal', () => {
  expect(safeText('a\u001b[31mb\r\nc\u202ed\u2028')).toBe('a�[31mb��c�d�')
  expect(safeText('x'.repeat(201))).toBe(`${'x'.repeat(200)}…`)
})

it('headers of a dead letter that the pipeline does not write are formatted as sizes', () => {
  expect(formatHeaders({ job: 'job_a', rows: 'AQ==', note: '+12127365000', dead_reason: 'r\n' }))
    .toEqual({ job: 'job_a', rows: '4 bytes', note: '12 bytes', dead_reason: 'r�' })
})

it('bytes, lists and references of a dead letter are formatted as sizes', () => {
  const envelope = formatEnvelope({
    chunk: 3,
    forceFresh: true,
    reference: '+12127365000',
    sealed: Buffer.from('+12127365000'),
    duplicates: [{ row: 1, count: 2 }],
    feed: { partner: 'acme\n', from: 7n, header: Buffer.alloc(2) },
    at: new Date(0),
    none: null,
  })
  expect(envelope).toEqual({
    chunk: 3,
    forceFresh: true,
    reference: '12 bytes',
    sealed: '12 bytes',
    duplicates: '1 items',
    feed: { partner: 'acme�', from: '7', header: '2 bytes' },
    at: '1970-01-01T00:00:00.000Z',
    none: null,
  })
})

it('opened rows of a dead letter are formatted completely, except bytes', () => {
  expect(formatContent({ inputs: ['+1'], rows: [1], tokens: Buffer.alloc(32) }))
    .toEqual({ inputs: ['+1'], rows: [1], tokens: '32 bytes' })
})
