import { checkName, type Partner, type PartnerKey } from '../accounts/partners.ts'
import { UsageError } from '../lib/run-command.ts'
import { principalOf } from '../lib/kafka/access-rules.ts'
import { readPrices } from '../money/prices.ts'
import { STAGES } from '../topology.ts'
import { HOUR_MS, hoursOf, modeOf, organizationOf, timeOf, type Task } from './options.ts'

const MOST_PARTITIONS = 256

/**
 * Makes a partner's topics and registers it; this is the only time its key is shown. The topics
 * come first, so that whoever finds the partner finds them.
 */
export const createPartner: Task = async (parts, options) => {
  const orgId = await organizationOf(parts, options)
  const { name = '', prices = '', principal = `User:${name}` } = options
  checkName(name)
  checkPrincipal(principal)
  const partitions = partitionsOf(options['partitions'])
  const pricesMicros = pricesOf(prices)
  if (await parts.partners.find(name) !== undefined) throw taken(name)
  const trial = options['trial'] !== undefined
  const topics = await parts.makePartnerTopics({ partner: name, partitions, principal, trial })
  const mode = modeOf(options)
  const random = options['random'] !== undefined
  const made = await parts.partners.create({
    name, orgId, mode, pricesMicros, partitions, random,
  })
  if (made === undefined) throw taken(name)
  return {
    partner: name,
    key: made.key,
    mode,
    submitted: topics.submitted,
    finished: topics.finished,
    access: topics.rulesCreated
      ? 'The rules below were created.'
      : 'The brokers have no authorizer and let everybody in; where they have one, allow:',
    rules: topics.rules.map(({ operation, kind, name: on, prefix }) =>
      `${principal} ${operation} ${kind} ${on}${prefix ? '*' : ''}`),
    note: 'The key is not shown again.',
  }
}

/** Rules of a stage's user that the topology does not give are removed by the next provision. */
function checkPrincipal (principal: string): void {
  if (!STAGES.some(stage => principalOf(stage) === principal)) return
  throw new UsageError(`${principal} is the user of a stage at the brokers: name the partner's ` +
    'own by --principal.')
}

export const listPartners: Task = async ({ partners }, options) => {
  const { org } = options
  const found = await partners.list()
  return {
    partners: found.filter(({ orgId }) => org === undefined || orgId === org).map(summaryOf),
  }
}

export const revokePartner: Task = async ({ partners }, { name = '' }) => {
  if (!await partners.revoke(name)) {
    throw new UsageError(`There is no partner ${name}; "partner list" shows them.`)
  }
  return { partner: name, revoked: true, note: 'Results of contacts under way still arrive.' }
}

/** Makes a new key for a partner; its other keys work on for the hours of grace. */
export const rotatePartner: Task = async ({ partners }, { name = '', graceHours }) => {
  const hours = hoursOf(graceHours)
  if ((await partners.find(name))?.revokedAtMs !== 0) {
    throw new UsageError(`There is no partner ${name} that sends; "partner list" shows them.`)
  }
  const rotated = await partners.rotate(name, hours * HOUR_MS)
  if (rotated === undefined) throw new UsageError(`There is no partner ${name}.`)
  return {
    partner: name,
    key: rotated.key,
    keys: rotated.keys.map(keyShown),
    note: 'The key is not shown again. Until the old one expires, results are sealed by it: ' +
      'the partner sets FEED_KEY="new,old".',
  }
}

function summaryOf ({ tenant: _tenant, createdAtMs, revokedAtMs, keys, ...partner }: Partner) {
  return {
    ...partner,
    createdAt: timeOf(createdAtMs),
    revokedAt: timeOf(revokedAtMs),
    keys: keys.map(keyShown),
  }
}

function keyShown ({ id, createdAtMs, expiresAtMs }: PartnerKey) {
  return { id, createdAt: timeOf(createdAtMs), expiresAt: timeOf(expiresAtMs) }
}

/** Checked as a whole price list is, but only what differs is kept. */
function pricesOf (text: string): Readonly<Record<string, number>> {
  if (text === '') return {}
  try {
    readPrices(text)
    return JSON.parse(text) as Record<string, number>
  } catch (error) {
    const why = error instanceof Error ? error.message.replace('PRICES', '--prices') : ''
    throw new UsageError(`--prices is JSON, service to micros: {"whatsapp":3500}. ${why}`)
  }
}

function partitionsOf (text = ''): number {
  const partitions = Number(text)
  if (Number.isInteger(partitions) && partitions >= 1 && partitions <= MOST_PARTITIONS) {
    return partitions
  }
  throw new UsageError(`--partitions is a whole number from 1 to ${MOST_PARTITIONS}.`)
}

function taken (name: string): UsageError {
  return new UsageError(`The name ${name} is or was a partner's; take another one.`)
}
