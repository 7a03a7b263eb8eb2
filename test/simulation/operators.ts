import type { Redis } from 'ioredis'
import type { Journal } from '../../schemas/types.ts'
import { createEmitter } from '../../services/runtime/engine/emit.ts'
import { createRecoveryGuards } from '../../services/money/recovery-guard.ts'
import type { Chaos } from './chaos.ts'
import type { Pipeline } from './pipeline.ts'
import type { Environment } from './environment.ts'

/** A tenant is frozen for a reason that no loss explains. */
class UnexplainedError extends Error {
  override readonly name = 'UnexplainedError'
}

/** Operators follow the runbook for frozen tenants. */
export type Operators = {
  /** Checks a tenant, and repairs it if it is frozen. */
  readonly check: (tenant: string) => Promise<void>
  /** Throws the first unexplained freeze. */
  readonly throwUnexplained: () => void
  /** Movements that only the file of the lost Redis still had. */
  readonly salvaged: readonly Journal[]
}

export type OperatorsOptions = {
  readonly redis: Redis
  readonly pipeline: Pipeline
  readonly chaos: Chaos
  readonly losses: Pick<Environment['losses'], 'lost'>
}

/** The numbers of the first and the last entry that are missing. */
type Gap = { readonly first: number, readonly last: number }

const GAP = /^entries (\d+) to (\d+) are missing before entry \d+(?=$|; )/

/** At times the operators trust the journal; otherwise they restore the missing entries. */
export function createOperators ({ redis, pipeline, chaos, losses }: OperatorsOptions): Operators {
  const guards = createRecoveryGuards(redis)
  const ship = shipperOf(pipeline)
  const salvaged: Journal[] = []
  const trusted = new Set<string>()
  let unexplained: UnexplainedError | undefined
  /** Trusts the journal at most once, and only about a single movement. */
  const isTrusted = (name: string, gap: Gap): boolean => {
    if (gap.first !== gap.last || trusted.has(name) || !chaos.happens(0.5)) return false
    trusted.add(name)
    return true
  }
  const repair = async (tenant: string, frozen: string): Promise<void> => {
    const gap = gapOf(frozen)
    if (gap !== undefined && isTrusted(`${tenant} ${frozen}`, gap)) {
      return await guards.thaw(tenant, true)
    }
    const missing = gap && missingOf(losses.lost, tenant, gap)
    if (missing === undefined) {
      unexplained = new UnexplainedError(`${tenant} is frozen: ${frozen}`)
      return
    }
    await ship(missing)
    salvaged.push(...missing)
    await guards.thaw(tenant, false)
  }
  return {
    check: async tenant => {
      const { frozen } = await guards.read(tenant)
      if (frozen !== '' && unexplained === undefined) await repair(tenant, frozen)
    },
    throwUnexplained: () => { if (unexplained !== undefined) throw unexplained },
    salvaged,
  }
}

function gapOf (frozen: string): Gap | undefined {
  const found = GAP.exec(frozen)
  return found === null ? undefined : { first: Number(found[1]), last: Number(found[2]) }
}

/** The missing entries from the file of the lost Redis; undefined unless all are there. */
function missingOf (
  lost: readonly Journal[], tenant: string, { first, last }: Gap
): readonly Journal[] | undefined {
  const found = Array.from({ length: last - first + 1 }, (_, index) => lost.findLast(entry =>
    entry.tenant === tenant && entry.seq === first + index))
  const entries = found.filter(entry => entry !== undefined)
  return entries.length < found.length ? undefined : entries
}

function shipperOf ({ messageCodec, bus }: Pipeline) {
  const emitter = createEmitter({
    messageCodec, producerOf: name => bus.producer(`operator.${name}`),
  })
  return async (entries: readonly Journal[]): Promise<void> => {
    await emitter.emit(entries.map(value =>
      ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  }
}
