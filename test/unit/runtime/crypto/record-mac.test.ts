import { expect, it, vi } from 'vitest'
import {
  createRecordMac, reportForgedRecords, type SignedRecord,
} from '../../../../services/runtime/crypto/mac.ts'
import { messageKeysOf } from '../../../support/keys/signed.ts'

const record: SignedRecord = { table: 'journal', tenant: 'org_1.live', id: '7', content: 'abc' }

it('a record MAC is authentic for its record only, and any other is reported', () => {
  const forged: SignedRecord[] = []
  const mac = createRecordMac(messageKeysOf(), one => forged.push(one))
  const given = mac.sign(record)
  expect(mac.isAuthentic(given, record)).toBe(true)
  const others: readonly SignedRecord[] = [
    { ...record, table: 'deliveries' }, { ...record, tenant: 'org_2.live' },
    { ...record, id: '8' }, { ...record, content: 'abd' },
    { ...record, id: '7","abc', content: '' },
  ]
  expect(others.map(other => mac.isAuthentic(given, other))).toEqual(others.map(() => false))
  expect(mac.isAuthentic('', record)).toBe(false)
  expect(forged).toEqual([...others, record])
})

it('forged records are counted, and logged once per table and minute', () => {
  const log = { error: vi.fn() }
  const metrics = { count: vi.fn() }
  let nowMs = 0
  const report = reportForgedRecords({ log, metrics }, () => nowMs)
  for (const table of ['jobs', 'jobs', 'journal'] as const) report({ ...record, table })
  expect(metrics.count.mock.calls).toEqual(
    ['jobs', 'jobs', 'journal'].map(table => ['records_forged_total', { table }]))
  expect(log.error.mock.calls.map(([about]) => about)).toEqual(
    ['jobs', 'journal'].map(table => ({ table, tenant: 'org_1.live', id: '7' })))
  nowMs = 60_000
  report({ ...record, table: 'jobs' })
  expect(log.error).toHaveBeenCalledTimes(3)
})
