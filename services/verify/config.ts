import Type from 'typebox'
import { commonConfig, defineConfig, messageKeys, pick } from '../lib/config.ts'
import { providerLists, providersConfig } from '../records/provider-names.ts'
import { LANES, SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import { isServerAddress } from './providers/dns.ts'
import { readHttpProviders } from './providers/http-config.ts'
import { smtpConfig } from './providers/smtp/config.ts'

const duration = (length: number, description: string) =>
  Type.Integer({ default: length, minimum: 0, description })
const atLeastOne = (count: number, description: string) =>
  Type.Integer({ default: count, minimum: 1, description })

const partConcurrencies = Object.fromEntries(SERVICE_SLUGS.map(slug =>
  [slug, Type.Integer({ minimum: 1 })])) as Record<ServiceSlug, ReturnType<typeof Type.Integer>>

const serverAddress = Type.Refine(
  Type.String(), isServerAddress, () => 'must be an IP address, with or without port')

/** Configuration of `verify`. */
export const verifyConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'REDIS_CACHE_URL', 'KEY_RING',
    'KEY_ACTIVE',
  ]),
  LANES: Type.Array(Type.Enum([...LANES]), {
    default: [...LANES], minItems: 1, description: 'Lanes this process serves.',
  }),
  SERVICES: Type.Array(Type.Enum([...SERVICE_SLUGS]), {
    default: [...SERVICE_SLUGS], minItems: 1, description: 'Services this process serves.',
  }),
  ...providersConfig,
  SECOND_OPINIONS: Type.Object(providerLists, {
    default: {},
    additionalProperties: false,
    description: 'Providers of each service, JSON, asked only for rows of live keys that ' +
      'PROVIDERS leave unknown.',
    examples: [{ 'email-validation': ['smtp-probe'] }],
  }),
  HTTP_PROVIDERS: Type.Refine(
    Type.Array(Type.Unknown(), {
      default: [],
      secret: true,
      description: 'Vendors that PROVIDERS names as http:<id>, JSON; secret, as it holds keys.',
    }),
    (described) => readHttpProviders(described).faults.length === 0,
    (described) => readHttpProviders(described).faults.join('; ')),
  DNS_SERVERS: Type.Array(serverAddress, {
    default: [],
    description: 'Resolvers asked about mail domains, IP addresses with or without port; without ' +
      'any no domain is looked up.',
  }),
  DNS_TIMEOUT_MS: atLeastOne(2_000, 'Longest a resolver is waited for; each question two times.'),
  DNS_CONCURRENCY: atLeastOne(256, 'Questions to resolvers under way at a time.'),
  DNS_CACHE_SECONDS: duration(3_600, 'How long it is remembered that a domain takes mail.'),
  DNS_NEGATIVE_CACHE_SECONDS: duration(300, 'How long it is remembered that it takes none.'),
  DNS_CACHE_DOMAINS: atLeastOne(100_000, 'Domains remembered at most.'),
  ...smtpConfig,
  BATCH_MESSAGES: atLeastOne(8, 'Parts decided between two commits.'),
  PART_CONCURRENCY: atLeastOne(32, 'Parts of a service under check at a time in a process.'),
  PART_CONCURRENCY_OF: Type.Partial(Type.Object(partConcurrencies), {
    default: {},
    additionalProperties: false,
    description: 'The same for services that differ, JSON.',
    examples: [{ whatsapp: 4, 'phone-validation': 64 }],
  }),
  PROVIDER_CONCURRENCY: atLeastOne(16, 'Calls of one provider under way at a time.'),
  PROVIDER_TIMEOUT_MS: atLeastOne(8_000, 'Longest a call of a provider may last, all tries.'),
  PROVIDER_RETRIES: Type.Integer({
    default: 2, minimum: 0, description: 'Further tries of a call that a provider did not take.',
  }),
  PROVIDER_ATTEMPT_TIMEOUT_MS: atLeastOne(8_000, 'Longest one try of such a call may last.'),
  PROVIDER_CALLS_PER_SECOND: Type.Integer({
    default: 0,
    minimum: 0,
    description: 'Calls of one provider this process starts; 0 is no limit. A described vendor ' +
      'can have its own.',
  }),
  PROVIDER_OPEN_PERCENT: Type.Integer({
    default: 50, minimum: 1, maximum: 99, description: 'Share of failing calls that is too much.',
  }),
  PROVIDER_SAMPLED_MS: atLeastOne(30_000, 'Time within which failing calls are counted.'),
  PROVIDER_OPEN_MS: duration(10_000, 'Pause of a provider too many of whose calls failed.'),
  LEASE_MS: atLeastOne(30_000, 'Longest a check of a contact is waited for instead of bought.'),
  LEASE_POLL_MS: atLeastOne(250, 'Pause between two looks for such a check.'),
  LATER_AFTER_MS: duration(60_000, 'Pause before a part is tried again when providers are down.'),
  GIVE_UP_AFTER_MS: duration(
    900_000, 'From the first try on; then rows end unknown when providers are still down.'),
})
