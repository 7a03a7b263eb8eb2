import Type from 'typebox'
import { commonConfig, defineConfig, pick } from '../lib/config.ts'
import { LANES, SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import { DEFAULT_PROVIDERS, PROVIDER_NAMES } from './providers.ts'

const durationMs = (ms: number, description: string) =>
  Type.Integer({ default: ms, minimum: 0, description })
const atLeastOne = (count: number, description: string) =>
  Type.Integer({ default: count, minimum: 1, description })

const providerList = Type.Optional(Type.Array(Type.Enum([...PROVIDER_NAMES])))
const providerLists = Object.fromEntries(SERVICE_SLUGS.map((slug) => [slug, providerList])) as
  Record<ServiceSlug, typeof providerList>

/** Configuration of `verify`. */
export const verifyConfig = defineConfig({
  ...pick(commonConfig, [
    'KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'REDIS_CACHE_URL', 'KEY_RING',
    'KEY_ACTIVE',
  ]),
  LANES: Type.Array(Type.Enum([...LANES]), {
    default: [...LANES], minItems: 1, description: 'Lanes this process serves.',
  }),
  SERVICES: Type.Array(Type.Enum([...SERVICE_SLUGS]), {
    default: [...SERVICE_SLUGS], minItems: 1, description: 'Services this process serves.',
  }),
  PROVIDERS: Type.Object(providerLists, {
    default: DEFAULT_PROVIDERS,
    additionalProperties: false,
    description: 'Providers of each service, the first one first; the others when it fails.',
    examples: [{ 'phone-validation': ['numbering-plan'] }],
  }),
  BATCH_MESSAGES: atLeastOne(8, 'Parts decided between two commits.'),
  PART_CONCURRENCY: atLeastOne(32, 'Parts under check at a time.'),
  PROVIDER_CONCURRENCY: atLeastOne(16, 'Calls of one provider under way at a time.'),
  PROVIDER_TIMEOUT_MS: atLeastOne(8_000, 'Longest a call of a provider may last, all tries.'),
  PROVIDER_RETRIES: Type.Integer({
    default: 2, minimum: 0, description: 'Further tries of a call that a provider did not take.',
  }),
  PROVIDER_OPEN_MS: durationMs(10_000, 'Pause of a provider half of whose calls failed.'),
  LEASE_MS: atLeastOne(30_000, 'Longest a check of a contact is waited for instead of bought.'),
  LEASE_POLL_MS: atLeastOne(250, 'Pause between two looks for such a check.'),
  LATER_AFTER_MS: durationMs(60_000, 'Pause before a part is tried again when providers are down.'),
  GIVE_UP_AFTER_MS: durationMs(
    900_000, 'From the first try on; then rows end unknown when providers are still down.'),
})
