import fc from 'fast-check'
import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'

type Encoder = {
  readonly buffer: Buffer
  readonly size: () => number
  readonly writeInt32: (value: number) => Encoder
  readonly writeString: (value: string) => Encoder
  readonly writeBytes: (value: Buffer) => Encoder
  readonly writeVarIntBytes: (value: Buffer) => Encoder
  readonly writeEncoder: (value: Encoder) => Encoder
  readonly writeEncoderArray: (value: readonly Encoder[]) => Encoder
}

/** One write; `read` checks what has been written so far. */
type Write =
  | { readonly kind: 'number', readonly value: number }
  | { readonly kind: 'string', readonly value: string }
  | { readonly kind: 'bytes' | 'varBytes', readonly length: number }
  | { readonly kind: 'read' }
  | { readonly kind: 'nested' | 'list', readonly writes: readonly Write[] }

const load = createRequire(import.meta.url)
const EncoderOf = load('kafkajs/src/protocol/encoder.js') as new () => Encoder
const crc32C = load('kafkajs/src/protocol/recordBatch/crc32C/index.js') as (b: Buffer) => number

const { writes } = fc.letrec<{ writes: Write[], write: Write }>(tie => ({
  write: fc.oneof(
    { depthSize: 'small' },
    fc.record({ kind: fc.constant('number' as const), value: fc.integer() }),
    fc.record({ kind: fc.constant('string' as const), value: fc.string() }),
    fc.record({
      kind: fc.constantFrom('bytes' as const, 'varBytes' as const),
      length: fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 4_090, max: 20_000 })),
    }),
    fc.constant({ kind: 'read' as const }),
    fc.record({ kind: fc.constantFrom('nested' as const, 'list' as const), writes: tie('writes') })
  ),
  writes: fc.array(tie('write'), { maxLength: 6 }),
}))

const bytesOf = (length: number) => Buffer.alloc(length, length % 251)

function encode (all: readonly Write[]): Encoder {
  const encoder = new EncoderOf()
  for (const write of all) {
    if (write.kind === 'number') encoder.writeInt32(write.value)
    if (write.kind === 'string') encoder.writeString(write.value)
    if (write.kind === 'bytes') encoder.writeBytes(bytesOf(write.length))
    if (write.kind === 'varBytes') encoder.writeVarIntBytes(bytesOf(write.length))
    if (write.kind === 'read') expect(encoder.buffer).toHaveLength(encoder.size())
    if (write.kind === 'nested') encoder.writeEncoder(encode(write.writes))
    if (write.kind === 'list') encoder.writeEncoderArray([encode(write.writes), encode([])])
  }
  return encoder
}

/** The same by the rules of the protocol, one piece behind the other. */
function expected (all: readonly Write[]): Buffer {
  return Buffer.concat(all.flatMap(write => {
    if (write.kind === 'number') return [int32(write.value)]
    if (write.kind === 'read') return []
    if ('writes' in write) return [expected(write.writes)]
    if (write.kind === 'string') {
      const text = Buffer.from(write.value)
      return [Buffer.of(text.length >> 8, text.length & 0xff), text]
    }
    const head = write.kind === 'bytes' ? int32(write.length) : varInt(write.length)
    return [head, bytesOf(write.length)]
  }))
}

function int32 (value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

/** Zigzag, then seven bits a byte, the least significant first. */
function varInt (value: number): Buffer {
  const bytes: number[] = []
  let rest = value * 2
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push(rest % 128 + 128)
  return Buffer.from([...bytes, rest])
}

describe('the encoder of kafkajs, patched', () => {
  it('keeps the order of large and nested writes', () => {
    fc.assert(fc.property(writes, all => {
      const encoder = encode(all)
      expect(encoder.size()).toBe(expected(all).length)
      expect(encoder.buffer.equals(expected(all))).toBe(true)
      expect(encoder.buffer.equals(expected(all))).toBe(true)
    }))
  })

  it('computes CRC-32C checksums', () => {
    expect(crc32C(Buffer.from('123456789'))).toBe(0xe3069283)
    expect(crc32C(Buffer.alloc(0))).toBe(0)
  })
})
