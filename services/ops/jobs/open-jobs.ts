import type { JobStore } from '../../jobs/store.ts'

/** A job that is accepted and not closed; null where its record is not to be had any more. */
export type OpenJobLine = {
  readonly id: string
  readonly tenant: string
  readonly service: string | null
  readonly lane: string | null
  readonly status: string | null
  readonly rowsDone: number | null
  readonly rows: number | null
  readonly ageSeconds: number | null
  /** Since when no row of it has come to its end. */
  readonly idleSeconds: number
}

export type OpenJobs = {
  readonly jobs: readonly OpenJobLine[]
  /** All that are meant, shown or not. */
  readonly open: number
}

export type Wish = {
  /** A tenant, or an organization with all its modes. */
  readonly tenant?: string | undefined
  readonly idleForSeconds: number
  readonly limit: number
}

export type OpenJobsParts = {
  readonly store: Pick<JobStore, 'openJobs' | 'read'>
  readonly tenants: () => Promise<readonly string[]>
  /** Redis time. */
  readonly nowMs: () => Promise<number>
}

/** So many tenants are asked about at once. */
const AT_ONCE = 200

/** Open jobs, those first that have not moved for longest; only they are read in full. */
export async function listOpenJobs (
  parts: OpenJobsParts, { tenant, idleForSeconds, limit }: Wish
): Promise<OpenJobs> {
  const isMeant = (name: string) =>
    tenant === undefined || name === tenant || name.startsWith(`${tenant}.`)
  const nowMs = await parts.nowMs()
  const open = (await openOf(parts, (await parts.tenants()).filter(isMeant)))
    .filter(({ progressAtMs }) => nowMs - progressAtMs >= idleForSeconds * 1_000)
    .toSorted((a, b) => a.progressAtMs - b.progressAtMs)
  const jobs = await Promise.all(open.slice(0, limit).map(found => lineOf(parts, found, nowMs)))
  return { jobs, open: open.length }
}

/** How many jobs of all tenants are open. */
export async function countOpenJobs (
  parts: Pick<OpenJobsParts, 'store' | 'tenants'>
): Promise<number> {
  return (await openOf(parts, await parts.tenants())).length
}

type Found = { readonly tenant: string, readonly job: string, readonly progressAtMs: number }

async function openOf (
  { store }: Pick<OpenJobsParts, 'store'>, tenants: readonly string[]
): Promise<readonly Found[]> {
  const found: Found[] = []
  for (let from = 0; from < tenants.length; from += AT_ONCE) {
    const some = await Promise.all(tenants.slice(from, from + AT_ONCE).map(async tenant =>
      (await store.openJobs(tenant)).map(job => ({ tenant, ...job }))))
    found.push(...some.flat())
  }
  return found
}

async function lineOf (
  { store }: OpenJobsParts, { tenant, job: id, progressAtMs }: Found, nowMs: number
): Promise<OpenJobLine> {
  const job = await store.read(tenant, id)
  return {
    id,
    tenant,
    service: job?.service ?? null,
    lane: job?.lane ?? null,
    status: job?.status ?? null,
    rowsDone: job?.counts.finishedRows ?? null,
    rows: job?.preflight.totalRows ?? null,
    ageSeconds: job === undefined ? null : secondsSince(job.createdAtMs, nowMs),
    idleSeconds: secondsSince(progressAtMs, nowMs),
  }
}

function secondsSince (thenMs: number, nowMs: number): number {
  return Math.max(0, Math.floor((nowMs - thenMs) / 1_000))
}
