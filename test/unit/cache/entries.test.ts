import { describe, expect, it } from 'vitest'
import { createReader, createWriter, isLease, leaseOf } from '../../../services/cache/entries.ts'
import { cachedRecord } from '../../support/stage-doubles.ts'

describe('entries of the cache', () => {
  it('hold records; a shared one is one text and one object', () => {
    const write = createWriter()
    const read = createReader()
    const record = cachedRecord({ fields: { carrier: 'Acmé "1"' } })
    expect(read(write(record))).toEqual(record)
    expect(read(write(record))).toBe(read(write({ ...record })))
    expect(read(write(cachedRecord({ confidence: 7 })))).toEqual(cachedRecord({ confidence: 7 }))
  })

  it('distinguish verdicts that share their fields', () => {
    const { fields } = cachedRecord()
    const records = [
      cachedRecord({ fields }), cachedRecord({ fields, confidence: 7 }),
      cachedRecord({ fields, status: 'invalid' }), cachedRecord({ fields, reason: 'no_dns' }),
      cachedRecord({ fields, job: 'job_"2"' }), cachedRecord({ fields, checkedAtMs: 5 }),
      cachedRecord({ fields }),
    ]
    expect(records.map(createWriter()).map(createReader())).toEqual(records)
  })

  it('hold leases, which differ from records', () => {
    expect(isLease(leaseOf('job_1'))).toBe(true)
    expect(isLease(createWriter()(cachedRecord()))).toBe(false)
    expect(leaseOf('job_1')).not.toBe(leaseOf('job_2'))
    expect(createReader()(leaseOf('job_1'))).toBe(undefined)
  })

  it.each([null, '', '{', '[]', '["valid"]', 'null', '7'])('with %s are misses', (text) => {
    const read = createReader()
    expect([read(text), read(text)]).toEqual([undefined, undefined])
  })
})
