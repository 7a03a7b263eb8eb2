import type { LRUCache } from 'lru-cache'
import { getDomain } from 'tldts'
import { MAX_DOMAIN_LENGTH } from '../../mail/owners.ts'
import { boundedCache } from '../../runtime/platform/limits.ts'
import { MAX_RECORD_LENGTH, type SpfPolicy, spfPolicy } from '../mailboxes/spf.ts'

/** What a domain asks receivers to do with mail that only claims to be from it (RFC 7489). */
type DmarcPolicy = 'none' | 'quarantine' | 'reject' | 'no_record' | 'invalid'

/** What a domain publishes about its senders; a field is missing that has no clear answer. */
export type SenderPolicy = {
  readonly spf?: SpfPolicy | undefined
  readonly dmarc?: DmarcPolicy | undefined
}

/** A text per domain that expires, for all processes. Never rejects. */
export type DomainStore = {
  /** Undefined without a text, or while the store is unavailable. */
  readonly read: (
    domain: string
  ) => Promise<{ readonly text: string, readonly ttlMs: number } | undefined>
  readonly write: (domain: string, text: string, ttlMs: number) => Promise<void>
}

/** The texts of a name; `no_domain`: the name does not exist. */
type FindTexts = (name: string, tenant: string) => Promise<
  | { readonly kind: 'found', readonly records: readonly string[] }
  | { readonly kind: 'none' | 'no_domain' | 'fault' }>

type SenderPolicyOptions = {
  /** Whether the resolvers answer for the DNS, else nothing is asked. */
  readonly isAvailable: () => Promise<boolean>
  /** Time to live of policies, and of domains that do not exist. */
  readonly keepMs: number
  readonly keepNegativeMs: number
  readonly maxDomains: number
  readonly shared?: DomainStore | undefined
  /** Milliseconds of a monotonic clock; replaced by tests. */
  readonly now?: (() => number) | undefined
}

/** How long a check waits, at most once in `PATIENCE_MS` while answers to its tenant are late. */
const WAIT_MS = 300
const PATIENCE_MS = 60_000
/** Further domains of a tenant have no answer: their columns stay blank. */
const MAX_PENDING = 1_000
const MAX_TENANTS = 10_000

/** What is under way for a tenant. */
type TenantQueries = { readonly pending: Map<string, Promise<void>>, hurriesUntilMs: number }

/** The domain does not exist if `isDenial`, else the resolvers did not answer. */
class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
  readonly isDenial: boolean

  constructor ({ isDenial }: { readonly isDenial: boolean }) {
    super('no answer to a query for texts')
    this.isDenial = isDenial
  }
}

/**
 * The SPF and DMARC policies of mail domains, which no verdict rests on. So nothing waits for slow
 * answers: they are kept for the next check.
 */
export class SenderPolicies {
  readonly #findTexts: FindTexts
  readonly #options: SenderPolicyOptions
  readonly #known: LRUCache<string, SenderPolicy>
  readonly #tenants = boundedCache<TenantQueries>({ entries: MAX_TENANTS })
  readonly #now: () => number

  constructor (findTexts: FindTexts, options: SenderPolicyOptions) {
    const { keepMs, maxDomains, now } = options
    this.#findTexts = findTexts
    this.#options = options
    this.#now = now ?? (() => performance.now())
    this.#known = boundedCache({ entries: maxDomains, ttl: keepMs, now })
  }

  /** The cached policy of a domain. */
  known (domain: string): SenderPolicy | undefined {
    return this.#known.get(domain)
  }

  /** Asks for policies; resolves when all are known, or soon. Never rejects. */
  async find (domains: readonly string[], tenant: string): Promise<void> {
    const current = this.#tenants.get(tenant) ?? { pending: new Map(), hurriesUntilMs: -Infinity }
    this.#tenants.set(tenant, current)
    const { pending } = current
    const queries = domains.filter(domain => !this.#known.has(domain))
      .map(domain => pending.get(domain) ?? this.#start(domain, tenant, pending))
    if (queries.length === 0 || this.#now() < current.hurriesUntilMs) return
    const over = Promise.withResolvers<'late'>()
    const timer = setTimeout(() => { over.resolve('late') }, WAIT_MS)
    const first = await Promise.race([Promise.all(queries), over.promise])
    clearTimeout(timer)
    if (first === 'late') current.hurriesUntilMs = this.#now() + PATIENCE_MS
  }

  async #start (
    domain: string, tenant: string, pending: TenantQueries['pending']
  ): Promise<void> {
    if (pending.size >= MAX_PENDING) return
    const query = this.#query(domain, tenant).finally(() => { pending.delete(domain) })
    pending.set(domain, query)
    await query
  }

  async #query (domain: string, tenant: string): Promise<void> {
    const { shared, keepMs, keepNegativeMs, isAvailable } = this.#options
    const stored = await shared?.read(domain)
    const policy = stored && readPolicy(stored.text)
    if (stored !== undefined && policy !== undefined) {
      this.#known.set(domain, policy, { ttl: stored.ttlMs })
      return
    }
    if (!await isAvailable()) return
    const texts = async (name: string) => await this.#findTexts(name, tenant)
    try {
      const [spf, dmarc] = await Promise.all([
        spfPolicy(domain, async name => readTexts(await texts(name), name === domain)),
        dmarcPolicy(domain, async name => readTexts(await texts(name))),
      ])
      await this.#keep(domain, { spf, dmarc }, keepMs)
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error
      if (error.isDenial) await this.#keep(domain, {}, keepNegativeMs)
    }
  }

  async #keep (domain: string, policy: SenderPolicy, ttlMs: number): Promise<void> {
    this.#known.set(domain, policy, { ttl: ttlMs })
    const { spf = UNKNOWN, dmarc = UNKNOWN } = policy
    await this.#options.shared?.write(domain, `${spf} ${dmarc}`, ttlMs)
  }
}

/** A name that `exists` has an answer: else the resolvers may deny that any name exists. */
function readTexts (answer: Awaited<ReturnType<FindTexts>>, exists = false): readonly string[] {
  if (answer.kind === 'found') return answer.records
  const isDenial = exists && answer.kind === 'no_domain'
  if (answer.kind === 'fault' || isDenial) throw new NoAnswer({ isDenial })
  return []
}

const POLICIES = ['none', 'quarantine', 'reject'] as const

/**
 * The policy of a domain by its record, or by that of the domain that its owner has registered
 * (RFC 7489, 6.6.3). Rejects as `texts` does.
 */
async function dmarcPolicy (
  domain: string, texts: (name: string) => Promise<readonly string[]>
): Promise<DmarcPolicy> {
  const registered = getDomain(domain, { allowPrivateDomains: true }) ?? domain
  for (const name of new Set([domain, registered])) {
    if (name.length + '_dmarc.'.length > MAX_DOMAIN_LENGTH) continue
    const records = (await texts(`_dmarc.${name}`)).filter(isDmarcRecord)
    const [record] = records
    if (record === undefined) continue
    if (records.length > 1 || record.length > MAX_RECORD_LENGTH) return 'invalid'
    const tags = parseTags(record)
    const wanted = name === domain ? tags.get('p') : tags.get('sp') ?? tags.get('p')
    return POLICIES.find(policy => policy === wanted) ?? 'invalid'
  }
  return 'no_record'
}

const isDmarcRecord = (text: string) => /^v[ \t]{0,9}=[ \t]{0,9}DMARC1[ \t]{0,9}(?:;|$)/.test(text)

/** The first of tags with the same name counts. */
function parseTags (record: string): ReadonlyMap<string, string> {
  const tags = new Map<string, string>()
  for (const part of record.split(';')) {
    const [name = '', value = ''] = part.split('=')
    const key = name.trim().toLowerCase()
    if (!tags.has(key)) tags.set(key, value.trim().toLowerCase())
  }
  return tags
}

const SPF_WORDS: readonly string[] = [
  'pass', 'fail', 'softfail', 'neutral', 'no_record', 'invalid',
] satisfies readonly SpfPolicy[]
const DMARC_WORDS: readonly string[] = [...POLICIES, 'no_record', 'invalid']
/** In place of a word. */
const UNKNOWN = '-'

/** A policy as `SenderPolicies` shares it; undefined for other text. */
function readPolicy (text: string): SenderPolicy | undefined {
  const [spf = '', dmarc = '', ...rest] = text.split(' ')
  const isPolicy = rest.length === 0 && [...DMARC_WORDS, UNKNOWN].includes(dmarc) &&
    [...SPF_WORDS, UNKNOWN].includes(spf)
  if (!isPolicy) return undefined
  return {
    spf: spf === UNKNOWN ? undefined : spf as SpfPolicy,
    dmarc: dmarc === UNKNOWN ? undefined : dmarc as DmarcPolicy,
  }
}
