import { entryOf, integer } from '../money/outbox.ts'
import { fieldsOf, jobOf, refusalOf } from './job-record.ts'
import type { Refusal } from './job.ts'
import type { Accepted, Cancelled, IdempotencyClaim, Outcome, Tallied } from './store-types.ts'

/** Decodes the reply of `claim`. */
export function claimedOf (reply: readonly string[]): IdempotencyClaim {
  const [kind, ...rest] = reply
  switch (kind) {
    case 'new': return { kind, nowMs: integer(rest[0]), acceptByMs: integer(rest[1]) }
    case 'same': {
      const [job = '', acceptBy, owner = ''] = rest
      return { kind, job, acceptByMs: integer(acceptBy), owner }
    }
    case 'reused': return { kind }
    default: throw new Error(`unexpected reply of claim: ${kind}`)
  }
}

type JobOfTenant = { readonly tenant: string, readonly job: string }

/** Decodes the reply of `accept`. */
export function acceptedOf ({ tenant, job }: JobOfTenant, reply: readonly string[]): Accepted {
  const [kind, entry] = reply
  if (kind === 'refused') return { kind, refusal: refusalIn(job, reply) }
  return { kind: 'accepted', job: jobOf(tenant, fieldsOf(reply.slice(2))), entry: entryIn(entry) }
}

/** Decodes the reply of `refuse`: the outcome that was stored before, the refusal, or `open`. */
export function jobOutcomeOf (of: JobOfTenant, reply: readonly string[]): Outcome {
  if (reply[0] === 'open') return { kind: 'open' }
  const outcome = acceptedOf(of, reply)
  const isForgotten = outcome.kind === 'refused' && fieldsOf(reply.slice(1))['forgotten'] === '1'
  return isForgotten ? { ...outcome, forgotten: true } : outcome
}

/** Decodes the reply of `tally` and `fail`. */
export function talliedOf (tenant: string, reply: readonly string[]): Tallied {
  const [kind, ended, entry, ...pairs] = reply
  if (kind === 'skip') return { kind }
  if (kind !== 'counted' && kind !== 'known') throw new Error(`unexpected reply of tally: ${kind}`)
  return { kind, ended: ended === '1', entry: entryIn(entry), job: jobOf(tenant, fieldsOf(pairs)) }
}

/** Decodes the reply of `cancel`. */
export function cancelledOf (tenant: string, reply: readonly string[]): Cancelled {
  const [kind, ...pairs] = reply
  if (kind === 'unknown') return { kind }
  if (kind !== 'cancelling' && kind !== 'ended') {
    throw new Error(`unexpected reply of cancel: ${kind}`)
  }
  return { kind, job: jobOf(tenant, fieldsOf(pairs)) }
}

const entryIn = (json = '') => json === '' ? undefined : entryOf(json)

function refusalIn (job: string, reply: readonly string[]): Refusal {
  const refusal = refusalOf(job, fieldsOf(reply.slice(1)))
  if (refusal === undefined) throw new Error(`reply for job ${job} lacks a refusal code`)
  return refusal
}
