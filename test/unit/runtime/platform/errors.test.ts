import {
  KafkaJSConnectionError, KafkaJSNumberOfRetriesExceeded, KafkaJSProtocolError,
} from 'kafkajs'
import { describe, expect, it } from 'vitest'
import {
  FatalError, InfrastructureError, isInfrastructure, orIfUnavailable, findFailedStore, markFailed,
  storeText,
} from '../../../../services/runtime/platform/errors.ts'

const named = (name: string, message: string, more: object = {}) =>
  Object.assign(new Error(message), { name, ...more })
const kafkaProtocol = (type: string, retriable: boolean) =>
  new KafkaJSProtocolError(Object.assign(new Error(type), { type, code: 1, retriable }) as never)

describe('an infrastructure error', () => {
  it.each<readonly [string, unknown]>([
    ['own', new InfrastructureError('registry')],
    ['refused', named('Error', 'connect', { code: 'ECONNREFUSED' })],
    ['undici', named('SocketError', 'other side closed', { code: 'UND_ERR_SOCKET' })],
    ['Redis loading', named('ReplyError', 'LOADING Redis is loading the dataset in memory')],
    ['Redis read-only', named('ReplyError', 'READONLY You can not write against a replica.')],
    ['Redis slot down', named('ReplyError', 'CLUSTERDOWN Hash slot not served')],
    ['Redis slot that moves', named('ReplyError', 'TRYAGAIN Multiple keys request')],
    ['a key that has moved', named('ReplyError', 'ERR Script attempted to access a non local key ' +
      'in a cluster node script: 1')],
    ['Redis redirections', new Error('Too many Cluster redirections. Last error: ASK 1 b:2')],
    ['a cluster that is not there', new Error('None of startup nodes is available')],
    ['Redis full', named('ReplyError', 'OOM command not allowed when used memory > maxmemory')],
    ['Redis retries', named('MaxRetriesPerRequestError', 'Reached the max retries')],
    ['Redis closed', new Error('Connection is closed.')],
    ['Redis slow', new Error('Command timed out')],
    ['Redis aborted', named('AbortError', 'Command aborted', { command: {} })],
    ['Kafka connection', new KafkaJSConnectionError('closed', { broker: 'b:1' })],
    ['Kafka retries', new KafkaJSNumberOfRetriesExceeded('x', { retryCount: 5, retryTime: 1 })],
    ['Kafka leader', kafkaProtocol('NOT_LEADER_FOR_PARTITION', true)],
    ['Kafka right', kafkaProtocol('TOPIC_AUTHORIZATION_FAILED', false)],
    ['Kafka sign-in', kafkaProtocol('ILLEGAL_SASL_STATE', false)],
    ['a certificate that ran out', named('Error', 'x', { code: 'CERT_HAS_EXPIRED' })],
    ['no TLS at the other side', named('Error', 'x', { code: 'ERR_SSL_WRONG_VERSION_NUMBER' })],
    ['ClickHouse memory', named('Error', 'x', { code: '241', type: 'MEMORY_LIMIT_EXCEEDED' })],
    ['ClickHouse table', named('Error', 'none', { code: '60', type: 'UNKNOWN_TABLE' })],
    ['ClickHouse disk', named('Error', 'full', { code: '75', type: 'CANNOT_WRITE' })],
    ['ClickHouse library', named('Error', 'full', { code: '1001', type: 'STD_EXCEPTION' })],
    ['ClickHouse cut file', named('Error', 'x', { code: '33', type: 'CANNOT_READ_ALL_DATA' })],
    ['ClickHouse to come', named('Error', 'x', { code: '1999', type: 'NEW_TROUBLE' })],
    ...['40', '159', '243', '252'].map(code =>
      [`ClickHouse ${code}`, named('Error', 'x', { code, type: 'X' })] as const),
    ['ClickHouse timeout', new Error('Timeout error.')],
    ['as a cause', new Error('outer', { cause: named('Error', 'x', { code: 'EPIPE' }) })],
    ['one of several', new AggregateError([named('Error', 'x', { code: 'ECONNREFUSED' })])],
  ])('%s', (_, error) => {
    expect(isInfrastructure(error)).toBe(true)
  })

  it.each<readonly [string, unknown]>([
    ['keys of two slots', named('ReplyError', "CROSSSLOT Keys don't hash to the same slot")],
    ['a bug', new TypeError('undefined is not a function')],
    ['a fatal error', new FatalError('stop')],
    ['a wrong script', named('ReplyError', 'ERR user_script:1: attempt to index nil')],
    ['a wrong type', named('ReplyError', 'WRONGTYPE Operation against a key')],
    ['a message too large', kafkaProtocol('MESSAGE_TOO_LARGE', false)],
    ['wrong SQL', named('Error', 'syntax', { code: '62', type: 'SYNTAX_ERROR' })],
    ...['27', '47', '53', '117', '469'].map(code =>
      [`ClickHouse ${code}`, named('Error', 'x', { code, type: 'X' })] as const),
    ['a type that only looks like one', named('Error', 'x', { code: 'FAILED', type: 'OURS' })],
    ['a code that only looks like one', named('Error', 'x', { code: '241' })],
    ['an abort of our own', new DOMException('aborted', 'AbortError')],
    ['no error at all', 'ECONNREFUSED'],
  ])('is not %s', (_, error) => {
    expect(isInfrastructure(error)).toBe(false)
  })
})

it('a fallback takes the place of what an unavailable store has, and of no other error', () => {
  const orNone = orIfUnavailable('none')
  expect(orNone(new InfrastructureError('down'))).toBe('none')
  expect(() => orNone(new TypeError('a bug'))).toThrow('a bug')
})

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
  expect(findFailedStore(new Error('outer', { cause: first }))).toBe('Kafka')
  expect(findFailedStore(new AggregateError([second, first]))).toBe('Kafka')
  expect([findFailedStore(second), findFailedStore('text')]).toEqual([undefined, undefined])
})
