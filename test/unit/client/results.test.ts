import { describe, expect, it } from 'vitest'
import { compressedBy } from '../../../services/client/results.ts'

describe('a result file', () => {
  it('is asked for as zstd only where fetch opens it', () => {
    const asked = { headers: { 'accept-encoding': 'zstd, gzip' } }
    for (const version of ['7.29.1', '7.30.0', '8.0.0']) {
      expect(compressedBy(version)).toEqual(asked)
    }
    for (const version of ['6.21.3', '7.9.0', '', undefined]) {
      expect(compressedBy(version)).toEqual({})
    }
    expect(compressedBy(process.versions['undici'])).toEqual(asked)
  })
})
