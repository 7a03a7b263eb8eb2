import { expect, it } from 'vitest'
import {
  failedAt, failedStoreOf, markFailed, storeText,
} from '../../../../services/runtime/platform/errors.ts'

it.each([
  ['redis://me:secret@127.0.0.1:6379/2', '127.0.0.1:6379'],
  ['rediss-cluster://me:se@cret@a:1,b:2', 'a:1,b:2'],
  ['redis-sentinel://:secret@a:1,b:2/state', 'a:1,b:2'],
])('the text of a store shows of %s only %s', (url, address) => {
  expect(storeText('REDIS_STATE_URL', url)).toBe(`The state Redis (REDIS_STATE_URL, ${address})`)
})

it('the text of a store shows no query of its URL, and brokers as they are listed', () => {
  expect(storeText('CLICKHOUSE_URL', 'http://me:a@ch:8123/db?password=b@c'))
    .toBe('ClickHouse (CLICKHOUSE_URL, ch:8123)')
  expect(storeText('KAFKA_BROKERS', 'kafka://a:9092,b:9092'))
    .toBe('Kafka (KAFKA_BROKERS, a:9092,b:9092)')
  expect(storeText('REDIS_CACHE_URL', '')).toBe('The cache Redis (REDIS_CACHE_URL)')
})

it('the store of an error is that recorded for it or for one of its causes', () => {
  const [first, second] = [new Error('a'), new Error('b')]
  markFailed(first, 'Kafka')
  expect(failedStoreOf(new Error('outer', { cause: first }))).toBe('Kafka')
  expect(failedStoreOf(new AggregateError([second, first]))).toBe('Kafka')
  expect([failedStoreOf(second), failedStoreOf('text')]).toEqual([undefined, undefined])
  expect(() => failedAt('ClickHouse')(second)).toThrow(second)
  expect(failedStoreOf(second)).toBe('ClickHouse')
})
