import { READING_STAGES, type StageName } from '../../topology.ts'
import { UsageError } from '../../lib/run-command.ts'
import type { Filter } from './board.ts'
import type { Choice } from './decide.ts'

/** Options of the command line, as they were typed. */
export type Options = {
  readonly stage?: string
  readonly reason?: string
  readonly diedOf?: string
  readonly job?: string
  readonly tenant?: string
  readonly limit?: string
  readonly all?: true
  readonly again?: true
  readonly yes?: true
  readonly open?: true
}

/** The stage of that name; throws UsageError when none of that name reads a topic. */
export function stageOf (name: string): StageName {
  const stage = READING_STAGES.find(known => known === name)
  if (stage !== undefined) return stage
  throw new UsageError(`Only these stages have dead letters: ${READING_STAGES.join(', ')}.`)
}

/** A place as it is written, `partition:offset`; throws UsageError for any other text. */
export function placeIn (text: string): string {
  if (/^\d+:\d+$/.test(text)) return text
  throw new UsageError('A letter is named by partition:offset, for example 0:12, as "list" shows.')
}

/** Which letters are meant: the one at a place, or those that fit the filters. */
export function filterOf (place: string | undefined, options: Options): Filter {
  const { reason, job, tenant } = options
  return { place: place === undefined ? undefined : placeIn(place), reason, job, tenant }
}

/** The choice a command line makes; throws UsageError where it is unclear. */
export function choiceOf (stage: string, place: string | undefined, options: Options): Choice {
  const filter = filterOf(place, options)
  const named = [filter.reason, filter.job, filter.tenant].some(one => one !== undefined)
  if (place !== undefined && named) {
    throw new UsageError('Name one letter, or choose by options, not both.')
  }
  if (place === undefined && !named && options.yes !== true) {
    throw new UsageError('Name a letter, for example 0:12, or choose letters by options; --yes ' +
      'without either means all that wait.')
  }
  return {
    stage: stageOf(stage),
    filter,
    again: options.again === true,
    yes: options.yes === true,
    limit: limitIn(options.limit),
  }
}

function limitIn (text = ''): number {
  const limit = Number(text)
  if (Number.isSafeInteger(limit) && limit > 0) return limit
  throw new UsageError('--limit is a whole number from 1.')
}
