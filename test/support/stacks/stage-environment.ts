import { ROOT_KEY_SETTINGS } from '../keys/organization-keys.ts'
import { MESSAGE_KEY_ENV } from '../keys/signed.ts'

/** What every stage needs of its environment; nothing listens at these addresses. */
export const STAGE_ENVIRONMENT = {
  ...MESSAGE_KEY_ENV,
  KAFKA_BROKERS: 'nowhere.invalid:9092',
  SCHEMA_REGISTRY_URL: 'http://nowhere.invalid:8081',
  REDIS_STATE_URL: 'redis://nowhere.invalid:6379',
  REDIS_CACHE_URL: 'redis://nowhere.invalid:6380',
  CLICKHOUSE_URL: 'http://nowhere.invalid:8123',
  ...ROOT_KEY_SETTINGS,
  // No test depends on the resolvers of the machine.
  DNS_SERVERS: '',
}
