import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { ContactLists } from '../accounts/contact-lists.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { parseTenant } from '../accounts/tenant.ts'
import { ListsFolder } from '../jobs/lists-folder.ts'
import { createJobStore } from '../jobs/store.ts'
import { connectDeps, type Connections } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import { sleep, withTimeout } from '../runtime/platform/retry.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { listSubscriptions } from '../runtime/platform/topics.ts'
import { createJobMessageCodec } from '../jobs/message-codec.ts'
import {
  type BuiltInProvider, describedVendor, VENDOR_PRESETS, type VendorPreset,
} from '../jobs/checks.ts'
import type { Log } from '../runtime/platform/log.ts'
import { redisRecordCache } from '../cache/cache.ts'
import { unmaskExchange } from '../mail/owners.ts'
import type { FindListedDomains } from './batch.ts'
import { Checker, type Factories } from './checker.ts'
import { verifyConfig, type VerifyConfig } from './config.ts'
import type { Provider } from './provider.ts'
import {
  createEmailDomainProvider, createSmtpProbeProvider, isReserved,
} from './providers/email.ts'
import { builtInLists, type CurrentLists, readEmailLists } from './providers/email-lists.ts'
import { type HttpVendor, readHttpProviders } from './providers/http-vendor.ts'
import { createVendorProvider } from './providers/http.ts'
import {
  createDns, createMailDomains, type MailDomainOptions, type MailDomains, redisDomainStore,
} from './providers/mail-domains.ts'
import { createNumberingPlanProvider } from './providers/numbering-plan.ts'
import { loadRangeData } from './providers/range-data.ts'
import { createSandboxProvider } from './providers/sandbox.ts'
import { DnsRecords } from './mailboxes/dns-records.ts'
import { EgressChecks } from './mailboxes/egress-check.ts'
import { createEgress, createEgressPool, describedEgresses } from './mailboxes/egress.ts'
import { MailHosts } from './mailboxes/hosts.ts'
import { type HostMemory, redisHostMemory, reportOwners } from './mailboxes/memory.ts'
import { type VerifyDeps, VerifyStage } from './stage.ts'
import { redisSubmissions, TasksInFlight } from './submissions.ts'

type Connected = Pick<Connections, 'state' | 'cache' | 'clock'> &
  Pick<ServiceContext, 'log' | 'metrics' | 'onStop'>

/** What the checks of mail addresses know of domains. */
type DomainKnowledge = {
  /** Undefined if DNS_SERVERS is empty: then domains are not checked. */
  readonly domains: MailDomains | undefined
  readonly lists: CurrentLists
}

/** What a session with a mail server may take to end once its time is over. */
const SESSION_ENDS_MS = 30_000

/**
 * The dependencies of the stage, from the configuration and open connections. Throws RangeError for
 * a provider that is not configured completely.
 */
export function verifyDeps (
  config: VerifyConfig, connected: Connected, knowledge: DomainKnowledge
): VerifyDeps {
  const { state, cache, clock, log, metrics } = connected
  const tasks = new TasksInFlight()
  tasks.watch(metrics, clock.now)
  return {
    store: createJobStore(state),
    submissionsOf: redisSubmissions(state, { ...config, clock }),
    tasks,
    cache: redisRecordCache(cache, { onFault: logCacheFault(log) }),
    checker: new Checker({
      lists: config.PROVIDERS,
      secondLists: config.SECOND_OPINIONS,
      limits: toLimits(config),
      metrics,
      factories: createFactories(config, {
        ...connected,
        ...knowledge,
        memory: redisHostMemory(cache, {
          leaseMs: config.SMTP_SESSION_TIMEOUT_MS + SESSION_ENDS_MS, onFault: logCacheFault(log),
        }),
      }),
    }),
    clock,
    sleep,
    metrics,
    leaseMs: config.CHECK_LEASE_MS,
    leasePollMs: config.CHECK_LEASE_POLL_MS,
    concurrencyOf: service =>
      config.VERIFY_CONCURRENCY_BY_SERVICE[service] ?? config.VERIFY_CONCURRENCY,
    batch: config.VERIFY_BATCH_MESSAGES,
    retryDelayMs: config.RETRY_DELAY_MS,
    retryForMs: config.RETRY_DEADLINE_MS,
    hostRetryForMs: config.MAILBOX_RETRY_FOR_SECONDS * SECOND_MS,
  }
}

function logCacheFault (log: Connected['log']): (error: unknown) => void {
  return (error) => {
    log.warn({ err: error }, 'cache Redis unavailable, contacts and domains count as not cached')
  }
}

function toLimits (config: VerifyConfig) {
  const calls = config.PROVIDER_CALLS_PER_SECOND
  return {
    timeoutMs: config.PROVIDER_TIMEOUT_MS,
    attemptTimeoutMs: config.PROVIDER_ATTEMPT_TIMEOUT_MS,
    concurrency: config.PROVIDER_CONCURRENCY,
    retries: config.PROVIDER_RETRIES,
    breaker: {
      failingShare: config.PROVIDER_OPEN_PERCENT / 100,
      sampledMs: config.PROVIDER_SAMPLED_MS,
      openMs: config.PROVIDER_OPEN_MS,
    },
    ...(calls === 0 ? {} : { rate: { calls, perMs: 1_000 } }),
  }
}

/** Wires the stage and starts it. */
async function startVerify (
  config: VerifyConfig, context: ServiceContext
): Promise<Running> {
  const folder = await ListsFolder.open(config, context, readEmailLists)
  const lists = () => folder?.value ?? builtInLists
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'cache', 'clock', 'gate', 'attempts',
  ])
  const messageCodec = createJobMessageCodec(connected, config)
  const subscriptions = listSubscriptions('verify', {
    lanes: config.LANES, services: config.SERVICES,
  })
  const onFault = logCacheFault(context.log)
  const domains = openMailDomains(config, {
    lists,
    shared: redisDomainStore(connected.cache, 'mail-domain', onFault),
    sharedPolicies: redisDomainStore(connected.cache, 'mail-policy', onFault),
  })
  logDns(domains, context.log).catch(context.fatal)
  logEgresses(config, context.log).catch(context.fatal)
  const contactLists = new ContactLists({
    redis: connected.state, keys: connectOrganizationKeys('results', config, connected),
  })
  const stage = new VerifyStage({
    ...verifyDeps(config, { ...connected, onStop: context.onStop }, { domains, lists }),
    findListedDomains: domains && createFindListedDomains(domains, contactLists),
  })
  const { cachedWeight } = createOrganizations(connected.state)
  return await runStage(stage, {
    ...connected, messageCodec, subscriptions, weightOf: cachedWeight,
  })
}

/** Resolvers may take longer; then the rows of the domain wait. */
const LISTED_DOMAINS_WITHIN_MS = 5_000

/** Looks the preferred mail servers of domains up in the lists of an organization. */
function createFindListedDomains (domains: MailDomains, lists: ContactLists): FindListedDomains {
  return async (tenant, names) => {
    const { orgId } = parseTenant(tenant)
    if (!await lists.hasMailServers(orgId)) return undefined
    const kinds = new Map<string, string>()
    const asked = names.filter(name => !isReserved(name))
    await withTimeout(Promise.all(asked.map(async name => {
      kinds.set(name, await domains.find(name, tenant))
    })), LISTED_DOMAINS_WITHIN_MS)
    const exchanges = asked.map(name => unmaskExchange(domains.facts(name).exchange ?? '', name))
    const actions = await lists.findMailServers(orgId, exchanges) ?? []
    return new Map(asked.flatMap((name, index) => {
      const action = (kinds.get(name) ?? 'fault') === 'fault' ? 'unknown' : actions[index]
      return action === undefined ? [] : [[name, action] as const]
    }))
  }
}

const SECOND_MS = 1_000

/** What providers are made of beside the configuration. */
type FactoryParts = DomainKnowledge & Pick<ServiceContext, 'metrics' | 'log' | 'onStop'> & {
  readonly memory: HostMemory
}

/**
 * Factories for the built-in providers, presets and those in HTTP_PROVIDERS. A provider loads its
 * data when it is created.
 */
export function createFactories (config: VerifyConfig, parts: FactoryParts): Factories {
  const described = readHttpProviders(config.HTTP_PROVIDERS).providers.map((vendor) =>
    [`http:${vendor.id}`, () => createVendorProvider(vendor)] as const)
  const presets = [...VENDOR_PRESETS].map(([name, preset]) =>
    [name, () => presetProvider(name, preset, config)] as const)
  const builtIn: Readonly<Record<BuiltInProvider, () => Provider>> = {
    'numbering-plan': () => createNumberingPlanProvider(loadRangeData()),
    sandbox: () => createSandboxProvider(),
    'email-domain': () => createEmailDomainProvider(parts),
    'smtp-probe': () => smtpProbeProvider(config, parts),
  }
  return { ...builtIn, ...Object.fromEntries([...described, ...presets]) }
}

/**
 * The provider of a preset by its key.
 * @throws RangeError without the key; the configuration has refused a wrong one.
 */
function presetProvider (name: string, preset: VendorPreset, config: VerifyConfig) {
  const { setting } = preset.key
  const key = (config as Readonly<Record<string, unknown>>)[setting]
  if (typeof key !== 'string') {
    throw new RangeError(`${name} needs ${setting}, which is empty; set it, or remove ${name} ` +
      'from PROVIDERS and SECOND_OPINIONS')
  }
  return createVendorProvider(describedVendor(preset, key) as HttpVendor)
}

const missingProbe = (setting: string) => new RangeError(`smtp-probe needs ${setting}, which is ` +
  'empty; set it, or remove smtp-probe from PROVIDERS and SECOND_OPINIONS')

/**
 * The provider `smtp-probe` by its settings.
 * @throws RangeError if a required one is empty.
 */
function smtpProbeProvider (config: VerifyConfig, parts: FactoryParts) {
  const { domains, memory, lists, metrics, log, onStop } = parts
  const pool = createEgressPool(describedEgresses(config).map(described => createEgress(described, {
    port: config.SMTP_PORT, timeoutMs: config.SMTP_CONNECT_TIMEOUT_MS,
  })))
  if (pool.all.length === 0) throw missingProbe('SMTP_HELO or SMTP_EGRESS')
  if (domains === undefined) throw missingProbe('DNS_SERVERS')
  reportOwners(memory, { metrics, log })
  const hosts = new MailHosts({
    memory,
    pool,
    limits: {
      sessions: config.SMTP_CONCURRENCY,
      sessionsAMinute: config.SMTP_PER_MINUTE,
      ratePercent: config.SMTP_RATE_PERCENT,
    },
    connections: config.SMTP_CONNECTIONS,
    startTls: config.SMTP_STARTTLS,
    greetingTimeoutMs: config.SMTP_GREETING_TIMEOUT_MS,
    replyTimeoutMs: config.SMTP_REPLY_TIMEOUT_MS,
    sessionTimeoutMs: config.SMTP_SESSION_TIMEOUT_MS,
    idleMs: config.SMTP_IDLE_MS,
    restMs: config.SMTP_REST_SECONDS * SECOND_MS,
    metrics,
  })
  onStop(() => hosts.stop())
  return createSmtpProbeProvider({
    domains,
    hosts,
    lists,
    firstTimeoutMs: config.SMTP_FIRST_TIMEOUT_MS,
    laterTimeoutMs: config.SMTP_LATER_TIMEOUT_MS,
  })
}

/** Undefined if DNS_SERVERS is empty: then domains are not checked. */
export function openMailDomains (
  config: VerifyConfig, parts: Pick<MailDomainOptions, 'lists' | 'shared' | 'sharedPolicies'>
): MailDomains | undefined {
  if (config.DNS_SERVERS?.length === 0) return undefined
  const dns = createDns({
    servers: config.DNS_SERVERS,
    timeoutMs: config.DNS_TIMEOUT_MS,
    concurrency: config.DNS_CONCURRENCY,
  })
  return createMailDomains(dns, {
    keepMs: config.DNS_CACHE_SECONDS * SECOND_MS,
    keepNegativeMs: config.DNS_NEGATIVE_CACHE_SECONDS * SECOND_MS,
    maxDomains: config.DNS_CACHE_DOMAINS,
    ...parts,
    ...(config.SMTP_ALLOW_PRIVATE ? { isReachable: () => true } : {}),
  })
}

/** Logs whether mail domains can be checked; resolves when the resolvers answered or did not. */
async function logDns (domains: MailDomains | undefined, log: Log): Promise<void> {
  if (domains === undefined) {
    log.info('DNS_SERVERS empty, mail domains are not checked')
  } else if (await domains.isAvailable()) {
    log.info('DNS resolvers answer, mail domains are checked')
  } else {
    log.warn('DNS resolvers do not answer for the root zone: check DNS_SERVERS and outbound ' +
      'port 53; until then e-mail rows end as unknown')
  }
}

/**
 * Logs what mail servers see of the addresses that smtp-probe uses: a warning for each fault.
 * Resolves when the resolvers answered or did not.
 */
export async function logEgresses (config: VerifyConfig, log: Log): Promise<void> {
  const lists = [...Object.values(config.PROVIDERS), ...Object.values(config.SECOND_OPINIONS)]
  if (!lists.some(names => names?.includes('smtp-probe') === true)) return
  const checks = new EgressChecks({
    dns: new DnsRecords({ servers: config.DNS_SERVERS, timeoutMs: config.DNS_TIMEOUT_MS }),
    blockLists: config.SMTP_DNSBL_ZONES,
  })
  for (const described of describedEgresses(config)) {
    const { name, findings } = await checks.check(described, { isOfThisMachine: true })
    const faults = findings.filter(({ level }) => level === 'fault')
    for (const { check, text, todo } of faults) {
      log.warn({ egress: name, check }, `mail servers may refuse this egress: ${text}; ${todo}`)
    }
    if (faults.length === 0) log.info({ egress: name }, 'no fault found in what mail servers see')
  }
}

export const verifyService = { config: verifyConfig, start: startVerify }

if (import.meta.main) await run('verify', verifyConfig, startVerify)
