import { expect, it } from 'vitest'
import { FatalError, InfrastructureError } from '../../../../services/runtime/platform/errors.ts'
import { createCodec } from '../../../../services/runtime/kafka/registry.ts'
import { localSource } from '../../../support/kafka/local-schemas.ts'
import {
  formatHeaders, openContent, readEnvelope, safeText,
} from '../../../../services/admin/dead/content.ts'
import { sealedContact } from '../../../support/feeds/feeds.ts'
import { liveMessage } from './memory-dead.ts'

const CANARY = '+12127365000'
const ROWS = 'rows.to-verify.small.whatsapp'
const codec = createCodec(localSource())
const key = Buffer.alloc(32, 1)
const partners = { keysOf: async (name: string) => name === 'acme' ? [key] as const : undefined }
const dead = (topic: string, value: Buffer | null) =>
  liveMessage({ topic: 'any.dead', value, headers: { dead_topic: topic } })

async function contact (partner: string, sealedBy = key, change: object = {}) {
  const sent = sealedContact(sealedBy, CANARY, { partner, reference: CANARY, sequence: 1 })
  return dead(`feeds.${partner}.submitted`,
    await codec.encode('feeds.submitted-value', { ...sent, ...change }))
}

it('the envelope of a dead letter is read without sealed content', async () => {
  const envelope = await readEnvelope(codec, await contact('acme'))
  expect(envelope).toMatchObject({ service: 'whatsapp', reference: '12 bytes', end: false })
  expect(JSON.stringify(envelope)).not.toContain(CANARY)
})

it('the envelope of a dead letter has bytes, lists and references as sizes', async () => {
  const decoded = {
    chunk: 3,
    forceFresh: true,
    reference: CANARY,
    sealed: Buffer.from(CANARY),
    duplicates: [{ row: 1, count: 2 }],
    feed: { partner: 'acme\n', from: 7n, header: Buffer.alloc(2) },
    at: new Date(0),
    none: null,
  }
  expect(await readEnvelope({ decode: async () => decoded }, dead(ROWS, Buffer.of(1)))).toEqual({
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

it('undecodable dead letters are reported without their bytes, outages are thrown', async () => {
  for (const letter of [
    dead(ROWS, Buffer.from(CANARY)), dead('nowhere', Buffer.from(CANARY)), dead(ROWS, null),
  ]) expect(await readEnvelope(codec, letter)).toBe('not decodable')
  const down = { decode: async () => { throw new InfrastructureError('down') } }
  await expect(readEnvelope(down, dead(ROWS, Buffer.of(1)))).rejects.toThrow('down')
})

it.each([
  ['completely, except bytes',
    { kind: 'message', message: { rows: () => ({ inputs: [CANARY], tokens: Buffer.alloc(32) }) } },
    { inputs: [CANARY], tokens: '32 bytes' }],
  ['as none', { kind: 'message', message: { rows: () => undefined } },
    'the message contains no rows'],
  ['as not decodable',
    { kind: 'message', message: { rows: () => { throw new Error(CANARY) } } },
    'cannot be opened: not decodable'],
  ['as broken', { kind: 'dead', reason: 'seal_broken' }, 'cannot be opened: seal_broken'],
  ['as skipped', { kind: 'skip', why: 'no_key' }, 'cannot be opened: no_key'],
])('rows of a dead letter are opened %s', async (_, decoded, content) => {
  const topics: string[] = []
  const decode = async ({ topic }: { readonly topic: string }) => {
    topics.push(topic)
    return decoded as never
  }
  expect(await openContent({ codec, messageCodec: { decode }, partners }, dead(ROWS, key)))
    .toEqual(content)
  expect(topics).toEqual([ROWS])
})

it('rows of a dead letter are not opened without their root key', async () => {
  const decode = async () => { throw new FatalError('RESULTS_ROOT_KEYS lacks key "2"') }
  await expect(openContent({ codec, messageCodec: { decode }, partners }, dead(ROWS, key)))
    .rejects.toThrow(FatalError)
})

it('a dead contact of a feed is opened with the key of its partner', async () => {
  const open = async (letter: Awaited<ReturnType<typeof contact>>) =>
    await openContent({ codec, messageCodec: undefined as never, partners }, letter)
  expect(await open(await contact('acme'))).toBe(CANARY)
  expect(await open(await contact('acme', Buffer.alloc(32, 2))))
    .toBe('cannot be opened: seal_broken')
  expect(await open(await contact('other'))).toBe('cannot be opened: unknown_partner')
  expect(await open(dead('feeds.acme.submitted', Buffer.from(CANARY))))
    .toBe('cannot be opened: not decodable')
  expect(await open(await contact('acme', key, { sealed: null, end: true })))
    .toBe('the message contains no rows')
})

it('an untrusted text in a dead letter is made safe for a terminal', () => {
  expect(safeText('a\u001b[31mb\r\nc\u202ed\u2028')).toBe('a�[31mb��c�d�')
  expect(safeText('x'.repeat(201))).toBe(`${'x'.repeat(200)}…`)
})

it('headers of a dead letter that the pipeline does not write are formatted as sizes', () => {
  expect(formatHeaders({ job: 'job_a', rows: 'AQ==', note: CANARY, dead_reason: 'r\n' }))
    .toEqual({ job: 'job_a', rows: '4 bytes', note: '12 bytes', dead_reason: 'r�' })
})
