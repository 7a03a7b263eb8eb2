import { createRequire } from 'node:module'
import { zstdCompressSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { registerCodecs } from '../../../services/kafka/codecs.ts'

type Codec = {
  readonly compress: (encoder: { readonly buffer: Buffer }) => Promise<Buffer>
  readonly decompress: (buffer: Buffer) => Promise<Buffer>
}
const { lookupCodec, lookupCodecByAttributes } =
  createRequire(import.meta.url)('kafkajs/src/protocol/message/compression')

it('the client reads what a producer compressed with zstd', async () => {
  registerCodecs()
  const { decompress }: Codec = lookupCodecByAttributes(4)
  expect(await decompress(zstdCompressSync('contacts'))).toEqual(Buffer.from('contacts'))
  const codec: Codec = lookupCodec(4)
  const packed = await codec.compress({ buffer: Buffer.from('back') })
  expect(await codec.decompress(packed)).toEqual(Buffer.from('back'))
})
