import Type, { type Static } from 'typebox'
import {
  cacheKeys, commonConfig, defineConfig, lanesConfig, messageKeys, pick, registryKeys, rootKeys,
  stateKeys,
} from '../runtime/platform/config.ts'
import {
  checksConfig, describedVendor, isVendorKey, vendorKeyForm, VENDOR_KEYS, VENDOR_PRESETS,
  type VendorKey,
} from '../jobs/checks.ts'
import { listsConfig } from '../jobs/lists-folder.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import { readHttpProviders } from './providers/http-vendor.ts'
import {
  egressSetting, isHeloName, isProxyAddress, isSenderAddress,
} from './mailboxes/egress.ts'

const duration = (length: number, description: string) =>
  Type.Integer({ default: length, minimum: 0, description })
const atLeastOne = (count: number, description: string) =>
  Type.Integer({ default: count, minimum: 1, description })

const batchConcurrencies = Object.fromEntries(SERVICE_SLUGS.map(slug =>
  [slug, Type.Integer({ minimum: 1 })])) as Record<ServiceSlug, ReturnType<typeof Type.Integer>>

/** Settings of the provider `smtp-probe`; unused unless a list of providers names it. */
const smtpConfig = {
  SMTP_HELO: Type.Optional(Type.Refine(
    Type.String({
      description: 'Host name that smtp-probe sends to mail servers: the reverse name (PTR) of ' +
        'the address it connects from. Required by smtp-probe, unless SMTP_EGRESS is set.',
      examples: ['probe.example.com'],
    }), isHeloName, () => 'must be a full host name')),
  SMTP_SENDER: Type.Optional(Type.Refine(
    Type.String({
      description: 'Sender that smtp-probe uses, of a domain with that address in its SPF; the ' +
        'null sender if missing.',
    }), isSenderAddress, () => 'must be a bare e-mail address')),
  SMTP_PROXY: Type.Optional(Type.Refine(
    Type.String({
      description: 'SOCKS5 proxy for all connections to mail servers, host:port.',
      examples: ['proxy.internal:1080'],
    }), isProxyAddress, () => 'must be host:port')),
  SMTP_EGRESS: egressSetting,
  SMTP_DNSBL_ZONES: Type.Array(Type.Refine(Type.String(), isHeloName, () =>
    'must be the zone of a block list'), {
    default: [],
    description: 'DNS block lists that our addresses are looked up in at the start of verify and ' +
      'by "admin egress"; most of them refuse public resolvers.',
    examples: ['zen.spamhaus.org'],
  }),
  SMTP_STARTTLS: Type.Boolean({
    default: true, description: 'Use encryption with mail servers that offer it.',
  }),
  SMTP_PORT: Type.Integer({
    default: 25, minimum: 1, maximum: 65_535, description: 'Port of mail servers.',
  }),
  SMTP_ALLOW_PRIVATE: Type.Boolean({
    default: false,
    description: 'Allow mail servers with private and loopback addresses; for tests only.',
  }),
  SMTP_CONNECTIONS: atLeastOne(
    256, 'Maximum concurrent sessions with mail servers, of which one tenant alone gets three ' +
      'quarters.'),
  SMTP_CONCURRENCY: atLeastOne(
    2, 'Maximum concurrent sessions of all processes with one mail server, from one egress; ' +
      'large owners of servers have limits of their own.'),
  SMTP_PER_MINUTE: atLeastOne(
    60, 'Maximum new sessions per minute of all processes with one mail server, from one egress; ' +
      'large owners of servers have limits of their own.'),
  SMTP_RATE_PERCENT: Type.Integer({
    default: 100,
    minimum: 1,
    maximum: 100_000,
    description: 'Share of the rates of all owners, in percent: less while addresses are new to ' +
      'mail servers, more once they are known to allow it.',
  }),
  SMTP_CONNECT_TIMEOUT_MS: atLeastOne(
    5_000, 'Timeout of a connection to one address of a mail server.'),
  SMTP_GREETING_TIMEOUT_MS: atLeastOne(75_000, 'Timeout of the greeting of a mail server.'),
  SMTP_REPLY_TIMEOUT_MS: atLeastOne(75_000, 'Timeout of any other reply of a mail server.'),
  SMTP_SESSION_TIMEOUT_MS: atLeastOne(
    600_000, 'Maximum duration of a session with a mail server, in which it is asked for many ' +
      'addresses.'),
  SMTP_IDLE_MS: atLeastOne(
    3_000, 'How long a session with a mail server is kept open for further addresses.'),
  SMTP_FIRST_TIMEOUT_MS: atLeastOne(
    8_000, 'Maximum wait for mail servers in the first check of a batch. Rows without an answer ' +
      'are retried after RETRY_DELAY_MS.'),
  SMTP_LATER_TIMEOUT_MS: atLeastOne(
    20_000, 'Maximum wait for mail servers in each later check of a batch.'),
  SMTP_REST_SECONDS: atLeastOne(
    300, 'Wait before a mail server is used again that was unreachable, and before an egress is ' +
      'used again at an owner that blocked it.'),
}

type PresetKey = typeof VENDOR_KEYS[number]

const vendorKey = (key: PresetKey) => Type.Optional(Type.Refine(
  Type.String({ secret: true, description: `${key.about}.` }),
  (text) => keyFaults(key, text).length === 0, (text) => keyFaults(key, text).join('; ')))

/** What is wrong with the key, and with the descriptions of vendors that contain it. */
function keyFaults (key: PresetKey, text: string): readonly string[] {
  if (!isVendorKey(key, text)) return [`must be ${vendorKeyForm(key)}`]
  return [...VENDOR_PRESETS.values()].filter((preset) => preset.key.setting === key.setting)
    .flatMap((preset) => readHttpProviders([describedVendor(preset, text)], true).faults)
    .map((fault) => fault.replace(/^vendor 1: /, ''))
}

/** The keys of the vendors in deploy/providers/. */
const vendorKeys: Readonly<Record<VendorKey, ReturnType<typeof vendorKey>>> =
  Object.fromEntries(VENDOR_KEYS.map((key) => [key.setting, vendorKey(key)]))

/** Configuration of `verify`. */
export const verifyConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, ...registryKeys, ...stateKeys, ...cacheKeys,
    ...rootKeys.results,
  ]),
  ...lanesConfig,
  SERVICES: Type.Array(Type.Enum([...SERVICE_SLUGS]), {
    default: [...SERVICE_SLUGS], minItems: 1, description: 'Services this process serves.',
  }),
  ...checksConfig,
  ...listsConfig,
  HTTP_PROVIDERS: Type.Refine(
    Type.Array(Type.Unknown(), {
      default: [],
      secret: true,
      description: 'Vendors that PROVIDERS names as http:<id>, JSON; secret, as it holds keys.',
    }),
    (described) => readHttpProviders(described).faults.length === 0,
    (described) => readHttpProviders(described).faults.join('; ')),
  ...vendorKeys,
  DNS_TIMEOUT_MS: atLeastOne(2_000, 'Timeout of a query to a resolver; each query has two tries.'),
  DNS_CONCURRENCY: atLeastOne(256, 'Maximum concurrent queries to resolvers.'),
  DNS_CACHE_SECONDS: duration(3_600, 'Time to live of a cached domain that accepts mail.'),
  DNS_NEGATIVE_CACHE_SECONDS: duration(
    300, 'Time to live of a cached domain that accepts no mail.'),
  DNS_CACHE_DOMAINS: atLeastOne(100_000, 'Maximum number of cached domains.'),
  ...smtpConfig,
  VERIFY_BATCH_MESSAGES: atLeastOne(
    8, 'Maximum number of verification batches between two commits.'),
  VERIFY_CONCURRENCY: atLeastOne(
    32, 'Maximum concurrent verification batches of a service in a process.'),
  VERIFY_CONCURRENCY_BY_SERVICE: Type.Partial(Type.Object(batchConcurrencies), {
    default: {},
    additionalProperties: false,
    description: 'VERIFY_CONCURRENCY of single services, JSON.',
    examples: [{ whatsapp: 4, 'phone-validation': 64 }],
  }),
  PROVIDER_CONCURRENCY: atLeastOne(16, 'Maximum concurrent calls of one provider.'),
  PROVIDER_TIMEOUT_MS: atLeastOne(8_000, 'Timeout of a provider call with all its retries.'),
  PROVIDER_RETRIES: Type.Integer({
    default: 2,
    minimum: 0,
    description: 'Maximum retries of a call that a provider did not accept.',
  }),
  PROVIDER_ATTEMPT_TIMEOUT_MS: atLeastOne(8_000, 'Timeout of one attempt of a provider call.'),
  PROVIDER_CALLS_PER_SECOND: Type.Integer({
    default: 0,
    minimum: 0,
    description: 'Maximum calls of one provider per second and process; 0 is no limit. A vendor ' +
      'in HTTP_PROVIDERS can have its own.',
  }),
  PROVIDER_OPEN_PERCENT: Type.Integer({
    default: 50,
    minimum: 1,
    maximum: 99,
    description: 'Share of failed calls that opens the circuit breaker of a provider.',
  }),
  PROVIDER_SAMPLED_MS: atLeastOne(
    30_000, 'Window in which the circuit breaker counts failed calls.'),
  PROVIDER_OPEN_MS: duration(10_000, 'Time that the circuit breaker of a provider stays open.'),
  CHECK_LEASE_MS: atLeastOne(30_000, 'Maximum wait for another job that checks the same contact.'),
  CHECK_LEASE_POLL_MS: atLeastOne(250, 'Poll interval for the check of a contact by another job.'),
  RETRY_DELAY_MS: duration(
    30_000, 'Wait before rows without a verdict return to verify. A row that waits for a mail ' +
      'server is checked again once it is due.'),
  RETRY_DEADLINE_MS: duration(
    900_000, 'Maximum time of retries while providers are down; then rows end as unknown. The ' +
      'deadline of a job comes first.'),
  MAILBOX_RETRY_FOR_SECONDS: Type.Integer({
    default: 21_600,
    minimum: 60,
    maximum: 172_800,
    description: 'Maximum time that rows wait for mail servers that are busy, greylist or rest; ' +
      'then they end as unknown. The deadline of a job comes first.',
  }),
})

export type VerifyConfig = Static<typeof verifyConfig>
