import type { Redis } from 'ioredis'
import type { Journal } from '../../schemas/types.ts'
import { createEmitter } from '../../services/engine/emit.ts'
import { createRecoveryGuards } from '../../services/money/recovery-guard.ts'
import type { Chaos } from './chaos.ts'
import type { Pipeline } from './pipeline.ts'
import type { World } from './world.ts'

/** Something is wrong that no loss explains. */
export class UnexplainedError extends Error {
  override readonly name = 'UnexplainedError'
}

/** People who look after frozen tenants, and do by hand what the product asks of them. */
export type People = {
  /** One look at a tenant, and all that follows from it. */
  readonly lookAfter: (tenant: string) => Promise<void>
  /** Throws what they found and could not explain. */
  readonly throwUnexplained: () => void
  /** Movements that were nowhere but in a file of the Redis that was lost. */
  readonly salvaged: readonly Journal[]
}

export type PeopleOptions = {
  readonly redis: Redis
  readonly pipeline: Pipeline
  readonly chaos: Chaos
  readonly losses: Pick<World['losses'], 'lost'>
}

/** The numbers of the first and the last entry that are missing. */
type Gap = { readonly first: number, readonly last: number }

const GAP = /^the entries (\d+) to (\d+) are nowhere, and \d+ is there(?=$|; )/

/** People who trust the journal at times, and look for what is missing in the lost file. */
export function createPeople ({ redis, pipeline, chaos, losses }: PeopleOptions): People {
  const gates = createRecoveryGuards(redis)
  const ship = shipperOf(pipeline)
  const salvaged: Journal[] = []
  const trusted = new Set<string>()
  let unexplained: UnexplainedError | undefined
  /** Of a single movement the journal may be trusted first, which tells some by what they did. */
  const isTrusted = (name: string, gap: Gap): boolean => {
    if (gap.first !== gap.last || trusted.has(name) || !chaos.happens(0.5)) return false
    trusted.add(name)
    return true
  }
  const mend = async (tenant: string, frozen: string): Promise<void> => {
    const gap = gapOf(frozen)
    if (gap !== undefined && isTrusted(`${tenant} ${frozen}`, gap)) {
      return await gates.thaw(tenant, true)
    }
    const missing = gap && missingOf(losses.lost, tenant, gap)
    if (missing === undefined) {
      unexplained = new UnexplainedError(`${tenant} is frozen: ${frozen}`)
      return
    }
    await ship(missing)
    salvaged.push(...missing)
    await gates.thaw(tenant, false)
  }
  return {
    lookAfter: async tenant => {
      const { frozen } = await gates.standing(tenant)
      if (frozen !== '' && unexplained === undefined) await mend(tenant, frozen)
    },
    throwUnexplained: () => { if (unexplained !== undefined) throw unexplained },
    salvaged,
  }
}

function gapOf (frozen: string): Gap | undefined {
  const found = GAP.exec(frozen)
  return found === null ? undefined : { first: Number(found[1]), last: Number(found[2]) }
}

/** What came to nobody's hands is in the file of the Redis that was lost: all of it, or none. */
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
