import type { NormalizedRows, Submitted } from '../../schemas/types.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { createTokenizer, readSecrets, type Tokenizer } from '../cache/tokens.ts'
import { createJobMessageCodec } from '../jobs/message-codec.ts'
import { contactIdentities, SERVICE_DEFINITIONS } from '../jobs/results/columns.ts'
import { createJobStore, type JobStore } from '../jobs/store.ts'
import { isKnownCountry } from '../phone/plans.ts'
import { connectDeps } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import type { Decision, Emission, Incoming, Stage } from '../runtime/engine/stage.ts'
import { eventLoop } from '../runtime/platform/limits.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { chooseLane, listSubscriptions } from '../runtime/platform/topics.ts'
import { canonicalEmail, canonicalPhone } from './canonical.ts'
import { normalizeConfig, type NormalizeConfig } from './config.ts'

export type NormalizeDeps = {
  readonly store: Pick<JobStore, 'refuse'>
  /** Redis time, which is compared with `acceptBy`. */
  readonly clock: Clock
  readonly tokenize: Tokenizer
  /** Maximum number of messages in one call of `decide`. */
  readonly batch: number
  /** Called for each chunk that is past `acceptBy`. */
  readonly onExpired: () => void
}

type Chunk = Incoming<'rows.submitted'>

/**
 * Adds the canonical form and token of every input of a chunk, or the reason why there is none.
 * Each chunk is decided alone, so any instance can take any chunk of a job. Drops a chunk past
 * `acceptBy`: its job can no longer be accepted.
 */
export function createNormalizeStage (deps: NormalizeDeps): Stage<'normalize'> {
  const decideChunk = async (chunk: Chunk): Promise<Decision<'normalize'>> => {
    if (deps.clock.now() > chunk.value.acceptBy) {
      deps.onExpired()
      return { completes: [chunk], emits: [] }
    }
    const { inputs, contacts } = chunk.rows()
    const { tokenVersion, ...rows } = await normalizeRows(chunk.value, inputs, deps.tokenize)
    const value = { ...chunk.value, tokenVersion }
    return { completes: [chunk], emits: [toEmission(value, { ...rows, contacts })] }
  }
  return {
    name: 'normalize',
    batch: deps.batch,
    byTenant: ['rows.submitted'],
    decide: async (messages) => {
      const decisions: Decision<'normalize'>[] = []
      for (const message of messages) {
        await eventLoop.yield(chooseLane(message.value.totalRows), message.value.tenant)
        decisions.push(await decideChunk(message))
      }
      return decisions
    },
    resolveDead: async ({ tenant, job }) => {
      // Without one of its chunks a job cannot be accepted, so it is refused now instead of at its
      // deadline.
      if (tenant && job) await deps.store.refuse(tenant, job, 'internal')
      return []
    },
    forget: () => {},
  }
}

/** The most expensive inputs take about 30 ms for so many characters, normal ones 1 ms. */
const MAX_CHARACTERS_PER_SLOT = 8_192

/**
 * The normalized rows of one chunk, columns of equal length in the order of the inputs, and the
 * version of the cache secret of their tokens. Yields to other work in between, so that expensive
 * inputs do not block it.
 */
async function normalizeRows (
  value: Submitted, inputs: readonly string[], tokenize: Tokenizer
): Promise<NormalizedRows & { readonly tokenVersion: string }> {
  const { kind } = SERVICE_DEFINITIONS[value.service]
  const canonicalize = kind === 'phone' ? canonicalPhone : canonicalEmail
  // With a country without a numbering plan, only numbers in international format can be parsed.
  const country = isKnownCountry(value.country) ? value.country : undefined
  const canonicals = new Array<string>(inputs.length).fill('')
  const reasons = new Array<string>(inputs.length).fill('')
  let characters = 0
  for (let row = 0; row < inputs.length; row++) {
    const input = inputs[row] ?? ''
    characters += input.length
    if (characters > MAX_CHARACTERS_PER_SLOT) {
      characters = 0
      await eventLoop.yield(chooseLane(value.totalRows), value.tenant)
    }
    const result = canonicalize(input, country)
    if (result.ok) canonicals[row] = result.canonical
    else reasons[row] = result.reason
  }
  const scope = { tenant: value.tenant, service: value.service, version: value.tokenVersion }
  const { version, tokens, rotatedTokens } = tokenize(scope, contactIdentities(kind, canonicals))
  return { inputs, canonicals, reasons, tokens, rotatedTokens, tokenVersion: version }
}

function toEmission (value: Submitted, rows: NormalizedRows): Emission<'rows.normalized'> {
  const { country: _country, rowsSchema: _schema, sealed: _sealed, ...envelope } = value
  return {
    topic: 'rows.normalized',
    lane: chooseLane(value.totalRows),
    value: envelope,
    rows,
  }
}

/** Wires the stage and starts it. */
async function startNormalize (
  config: NormalizeConfig, context: ServiceContext
): Promise<Running> {
  const deps = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'clock', 'gate', 'attempts',
  ])
  const stage = createNormalizeStage({
    store: createJobStore(deps.state),
    clock: deps.clock,
    tokenize: createTokenizer(readSecrets(config.CACHE_SECRETS)),
    batch: config.NORMALIZE_BATCH_MESSAGES,
    onExpired: () => context.metrics.count('stage_expired_total', { stage: 'normalize' }),
  })
  const messageCodec = createJobMessageCodec(deps, config)
  const subscriptions = listSubscriptions('normalize', { lanes: config.LANES })
  const { cachedWeight } = createOrganizations(deps.state)
  return await runStage(stage, { ...deps, messageCodec, subscriptions, weightOf: cachedWeight })
}

export const normalizeService = { config: normalizeConfig, start: startNormalize }

if (import.meta.main) await run('normalize', normalizeConfig, startNormalize)
