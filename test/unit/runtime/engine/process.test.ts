import { describe, expect, it } from 'vitest'
import { MissingOrganizationKeyError } from '../../../../services/runtime/crypto/key-ring.ts'
import type { Emission, MessageCodec } from '../../../../services/runtime/engine/stage.ts'
import type { RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import { FatalError } from '../../../../services/runtime/platform/errors.ts'
import {
  benchOf, deciding, decisionFor, echo, echoStage, plainCodec, rawMessage, textOf, type Read,
} from './engine-bench.ts'

/** Resolves the rows of a dead letter. */
const resolveDead = async (headers: RawMessage['headers']) =>
  decisionFor([], `rows of ${headers.tenant}`).emits

/** A stage that cannot decide messages of this text, and its calls. */
function poisonedBy (text: string) {
  const decided: string[] = []
  const stage = echoStage({
    resolveDead,
    decide: async messages => {
      decided.push(messages.map(textOf).join(' '))
      if (messages.some(message => textOf(message) === text)) throw new Error('cannot be decided')
      return echo(messages)
    },
  })
  return { decided, stage }
}

const dead = (offset: number) => rawMessage(offset, 'dead')
const jobOf = ({ value }: Emission) => (value as { readonly job: string }).job

/** A codec that throws for messages whose text starts so, when it decodes or encodes them. */
const failingCodec = (when: 'decode' | 'encode', start: string, error: Error): MessageCodec => ({
  decode: async raw => {
    if (when === 'decode' && String(raw.value).startsWith(start)) throw error
    return await plainCodec.decode(raw)
  },
  encode: async emission => {
    if (when === 'encode' && jobOf(emission).startsWith(start)) throw error
    return await plainCodec.encode(emission)
  },
})

const lacksKey =
  new MissingOrganizationKeyError('no key', { wraps: 'rows', advice: 'restore' })

describe('a message whose decision fails', () => {
  it('is tried three times, then alone three times, then a dead letter', async () => {
    const { decided, stage } = poisonedBy('m1')
    const bench = await benchOf(stage)
    expect(await bench.deliver([rawMessage(0), rawMessage(1), rawMessage(2)]))
      .toEqual({ kind: 'done' })
    expect(decided).toEqual(['m0 m1 m2', 'm0 m1 m2', 'm0 m1 m2', 'm0', 'm1', 'm1', 'm1', 'm2'])
    expect(bench.effects).toEqual([
      'rows.normalized m0', 'rows.normalized rows of t', 'normalize.dead m1', 'rows.normalized m2',
      'commit 3',
    ])
    expect(bench.letters[0]?.headers.dead_reason).toBe('decision failed')
  })

  it('is decided if a retry succeeds', async () => {
    let calls = 0
    const bench = await deciding(async messages => {
      if (++calls < 3) throw new Error('at times')
      return echo(messages)
    })
    await bench.deliver([rawMessage(0)])
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 1'])
    expect(await bench.metrics.text())
      .toContain('stage_retries_total{stage="normalize",step="decide",cause="failure"} 2')
  })

  it('completes nothing and sends nothing after its dead letter if afterProduced fails',
    async () => {
      const bench = await deciding(async messages =>
        echo(messages, { afterProduced: async () => { throw new TypeError('a bug') } }),
      { deadLimit: 1 })
      await expect(bench.deliver([rawMessage(0)])).rejects.toThrow(FatalError)
      expect(bench.effects).toEqual(Array(3).fill('rows.normalized m0'))
    })
})

describe('a message is a dead letter', () => {
  const at = (offset: number) => rawMessage(offset)

  it.each([
    ['if its emission cannot be sealed', { messages: [at(0), at(1)] },
      ['dead m0', 'm1', 'commit 2'], 'decision failed',
      failingCodec('encode', 'm0', new RangeError('too large'))],
    ['even if nothing can be emitted for it', {
      messages: [at(0)],
      ...poisonedBy('m0').stage,
      resolveDead: () => Promise.reject(new Error('headers')),
    }, ['dead m0', 'commit 1'], 'decision failed'],
    ['at once if the codec cannot decode it', { messages: [dead(0), at(1)], resolveDead },
      ['rows of t', 'dead dead', 'm1', 'commit 2'], 'bad bytes'],
    ['after the messages before it are decided', { messages: [at(0), dead(1), at(2)], resolveDead },
      ['m0', 'rows of t', 'dead dead', 'm2', 'commit 3'], 'bad bytes'],
    ['whose rows stay open if their organization lacks its key',
      { messages: [dead(0), at(1)], resolveDead }, ['dead dead', 'm1', 'commit 2'], 'bad bytes',
      failingCodec('encode', 'rows', lacksKey)],
    ['if decoding throws', { messages: [at(0)] }, ['dead m0', 'commit 1'], 'unreadable',
      failingCodec('decode', 'm0', new Error('no such format'))],
  ])('%s', async (_, { messages, ...stage }, effects, reason, messageCodec = plainCodec) => {
    const bench = await benchOf(echoStage(stage), { messageCodec })
    await bench.deliver(messages)
    expect(bench.effects.map(text => text.replace(/^(rows\.normalized |normalize\.)/, '')))
      .toEqual(effects)
    expect(bench.letters.map(({ headers }) => headers.dead_reason)).toEqual([reason])
  })

  it('with its headers, and those of its source, if the stage decides so', async () => {
    const bench =
      await deciding(async messages => [decisionFor(messages, 'rows', { dead: 'no way' })])
    await bench.deliver([rawMessage(4), { ...rawMessage(5), key: Buffer.alloc(0), value: null }])
    expect(bench.effects.at(-1)).toBe('commit 6')
    expect(bench.letters[0]).toMatchObject({
      key: 'key4',
      value: Buffer.from('m4'),
      headers: {
        tenant: 't',
        chunkRows: '2',
        dead_reason: 'no way',
        dead_stage: 'normalize',
        dead_topic: 'rows.submitted.small',
        dead_partition: '0',
        dead_offset: '4',
        dead_at: '1970-01-01T00:00:05.000Z',
      },
    })
    expect(bench.letters[1]).toMatchObject({ key: 'rows.submitted.small:0:5', value: null })
  })
})

describe('a message of an organization that lacks a key', () => {
  it.each(['decode', 'encode'] as const)(
    'is a dead letter if %s needs it, its rows stay open, and the stage goes on', async when => {
      const bench = await benchOf(poisonedBy('').stage,
        { deadLimit: 2, messageCodec: failingCodec(when, 'lost', lacksKey) })
      const lost = ['lost0', 'lost1', 'lost2']
      await bench.deliver([...lost, 'm3'].map((text, offset) => rawMessage(offset, text)))
      expect(bench.effects).toEqual(
        [...lost.map(text => `normalize.dead ${text}`), 'rows.normalized m3', 'commit 4'])
      expect(bench.letters.map(({ headers }) => headers.dead_reason))
        .toEqual(lost.map(() => 'missing_key'))
      expect(await bench.metrics.text())
        .toContain('stage_dead_letters_total{stage="normalize",cause="missing_key"} 3')
    })

  it('does not become one after the end of its delivery', async () => {
    const ending = new AbortController()
    const bench = await deciding(async () => {
      ending.abort()
      throw lacksKey
    })
    await bench.deliver([rawMessage(0)], { signal: ending.signal })
    expect(bench.effects).toEqual([])
  })
})

describe('the limit of dead letters', () => {
  it('stops the stage before the last of them, which is not committed', async () => {
    const bench = await benchOf(echoStage({ batch: 1 }), { deadLimit: 3 })
    await expect(bench.deliver([dead(0), dead(1), dead(2)]))
      .rejects.toThrow('3 decisions in a row failed')
    expect(bench.effects).toEqual([
      'normalize.dead dead', 'commit 1', 'normalize.dead dead', 'commit 2',
    ])
  })

  it('counts the failures of one job once, so that it stops no others', async () => {
    const bench = await benchOf(echoStage({ batch: 1 }), { deadLimit: 3 })
    const of = (job: string, offset: number) => ({ ...dead(offset), headers: { job } })
    const ofOne = Array.from({ length: 5 }, (_, offset) => of('job_1', offset))
    await bench.deliver([...ofOne, of('job_2', 5)])
    await expect(bench.deliver([of('job_3', 6)])).rejects.toThrow('3 decisions in a row failed')
  })

  it('is reset after a decided message', async () => {
    const bench = await benchOf(echoStage({ batch: 1 }), { deadLimit: 2 })
    await bench.deliver([dead(0), rawMessage(1), dead(2)])
    expect(bench.effects.at(-1)).toBe('commit 3')
  })

  it('counts all letters of one decision as one', async () => {
    const decide = async (messages: readonly Read[]) => [decisionFor(messages, 'x', { dead: 'no' })]
    const bench = await benchOf(echoStage({ batch: 50, decide }), { deadLimit: 3 })
    const messages = Array.from({ length: 150 }, (_, offset) => rawMessage(offset))
    await expect(bench.deliver(messages)).rejects.toThrow(FatalError)
    expect(bench.letters.map(({ key }) => key)).toEqual(
      Array.from({ length: 100 }, (_, offset) => `key${offset}`))
    const text = await bench.metrics.text()
    expect(text).toContain('stage_dead_letters_total{stage="normalize",cause="decided"} 100')
    expect(text).not.toMatch(/^stage_chunks_total\{/m)
  })
})

describe('the replay of a dead letter', () => {
  const replayOf = (offset: number, text: string, more: Partial<RawMessage> = {}) => ({
    ...rawMessage(offset, text), headers: { replay_of: `0:${offset}` }, ...more,
  })

  it('is reported before its message is complete, by what became of it', async () => {
    const bench = await deciding(async messages => messages.map(message => ({
      completes: [message],
      emits: [],
      ...textOf(message) === 'again' && { dead: 'why' },
      ...textOf(message) === 'none' && { ignored: 'nothing to do' },
    })))
    await bench.deliver([
      replayOf(0, 'taken'), replayOf(1, 'again'), replayOf(2, 'none'), replayOf(3, 'skip'),
      replayOf(4, 'dead'), replayOf(5, 'forged', { forged: true }), rawMessage(6),
    ])
    expect(bench.letters.filter(({ headers }) => headers.done_of !== undefined)
      .map(({ headers }) => `${headers.done_of} ${headers.done_as} ${headers.done_why}`).toSorted())
      .toEqual([
        '0:0 replayed taken', '0:1 replayed dead again: why', '0:2 ignored nothing to do',
        '0:3 ignored no_key', '0:4 replayed dead again: bad bytes',
      ])
    expect(bench.effects.at(-1)).toBe('commit 7')
  })
})

describe('the partitions of a job', () => {
  const headers = { 'partitions.rows.completed': '8' }

  it.each([
    ['are passed on to the messages about it', [
      { ...rawMessage(0, 'a'), headers: { job: 'a', ...headers } },
      { ...rawMessage(1, 'b'), headers: { job: 'b' } },
    ], [headers, undefined]],
    ['are passed on from a dead letter',
      [{ ...rawMessage(0, 'dead'), headers: { job: 'a', ...headers } }], [headers]],
  ])('%s', async (_, messages, expected) => {
    const partitions: unknown[] = []
    const stage = echoStage({ resolveDead: async ({ job = '' }) => decisionFor([], job).emits })
    const encode: MessageCodec['encode'] = async emission => {
      partitions.push(emission.partitions)
      return await plainCodec.encode(emission)
    }
    await (await benchOf(stage, { messageCodec: { ...plainCodec, encode } })).deliver(messages)
    expect(partitions).toEqual(expected)
  })
})
