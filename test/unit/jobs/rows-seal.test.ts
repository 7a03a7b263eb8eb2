import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  boundOf, checkRows, openHeader, unsealRows, sealHeader, sealRows,
} from '../../../services/jobs/rows-seal.ts'
import type { RowsBinding } from '../../../services/jobs/rows-seal.ts'
import { SealError, unpack } from '../../../services/runtime/crypto/seal.ts'

const key = randomBytes(32)
const plain = Buffer.from('+1 212 736 5000, call me')
const binding: RowsBinding = {
  tenant: 'org_1.live',
  job: 'job_1',
  topic: 'rows.completed',
  chunk: 1,
  batch: 2,
  chunks: 3,
  rowsSchema: 4,
  bound: Buffer.from('digest'),
}
const block = {
  finished: Buffer.of(7),
  cached: Buffer.of(1),
  live: Buffer.of(2),
  invalid: Buffer.of(4),
  unknown: Buffer.of(0),
  cancelled: Buffer.of(0),
  duplicates: [{ row: 1, count: 2 }],
  inputs: false,
  firstRow: 1_000,
}

describe('sealed rows', () => {
  it('open at their place, and show nothing', () => {
    const sealed = sealRows(key, binding, plain)
    expect(unpack(unsealRows(key, binding, sealed))).toEqual(plain)
    expect(sealed.includes('212')).toBe(false)
    expect(sealRows(key, binding, plain)).not.toEqual(sealed)
  })

  it.each<Partial<RowsBinding>>([
    {
      tenant: 'org_1.test',
    }, { job: 'job_2' }, { topic: 'rows.to-verify' }, { chunk: 0 }, { batch: -1 },
    { chunks: 4 }, { rowsSchema: 5 }, { bound: Buffer.from('other') },
  ])('do not open at %o', other => {
    const sealed = sealRows(key, binding, plain)
    expect(() => checkRows(key, { ...binding, ...other }, sealed)).toThrow(SealError)
    expect(() => unsealRows(key, { ...binding, ...other }, sealed)).toThrow(SealError)
  })

  it('do not open under another key', () => {
    const sealed = sealRows(key, binding, plain)
    expect(() => checkRows(randomBytes(32), binding, sealed)).toThrow(SealError)
  })
})

describe('what is counted of a block', () => {
  it.each(Object.keys(block))('is bound with its %s', name => {
    const changed = {
      finished: Buffer.of(15), duplicates: [{ row: 1, count: 3 }], inputs: true, firstRow: 0,
    }
    const other = {
      [name]: Buffer.of(255), ...(name in changed ? { [name]: changed[name as 'duplicates'] } : {}),
    }
    expect(boundOf({ ...block, ...other })).not.toEqual(boundOf(block))
  })

  it('does not fit when a byte moves from one bitmap to the next', () => {
    const moved = { ...block, finished: Buffer.of(7, 3) }
    expect(boundOf(moved)).not.toEqual(boundOf(block))
  })
})

describe('the header of a job', () => {
  const owner = { tenant: 'org_1.live', job: 'job_1' }
  const header = { metadata: { order: '7' }, webhookUrl: 'https://example.com/hook' }

  it('opens for its job alone', () => {
    const sealed = sealHeader(key, owner, header)
    expect(openHeader(key, owner, sealed)).toEqual(header)
    expect(() => openHeader(key, { ...owner, job: 'job_2' }, sealed)).toThrow(SealError)
  })

  it('keeps nothing but metadata and webhook address', () => {
    const sealed = sealHeader(key, owner, { ...header, inputs: ['secret'] } as never)
    expect(openHeader(key, owner, sealed)).toEqual(header)
  })

  it('is empty when there is nothing in it', () => {
    const none = { metadata: {}, webhookUrl: '' }
    expect(sealHeader(key, owner, none)).toHaveLength(0)
    expect(openHeader(key, owner, Buffer.alloc(0))).toEqual(none)
  })
})
