import type { AccessAction } from '../accounts/access-log/access-log.ts'
import {
  checkName, FEED_TYPES, type Partner, type PartnerKey,
} from '../accounts/partners.ts'
import { readPrices } from '../money/prices.ts'
import { toPrincipal, type AccessRule } from '../runtime/kafka/admin.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import { partnerTopics, topicName } from '../runtime/platform/topics.ts'
import { STAGES } from '../topology.ts'
import {
  type AdminCommand, type Context, HOUR_MS, organizationToChange, parseFromZero, parseMode,
  type Recording, runChange, runTask, type Task, toIsoTime,
} from './command-line.ts'
import type { RulesOfPartner } from './deps.ts'

const MAX_PARTITIONS = 256

/** Adds `partner` and its commands. */
export function addPartners (program: AdminCommand, context: Context): void {
  const partner = program.command('partner').description('partners of bulk feeds')
  /** The name of a partner is its id. Its organization is not an option. */
  const withOrganization = (action: AccessAction): Recording => async ({ name }, env) => {
    const target = String(name)
    const partner = await context.open(env, ({ partners }) => partners.find(target))
    return { action, target, ...partner && { organization: partner.orgId } }
  }
  partner.command('create').description('create a partner and its topics; its key is shown once')
    .records(({ name }) => ({ action: 'partner.created', target: String(name) }))
    .requiredOption('--org <id>', 'organization that pays')
    .requiredOption('--name <name>', 'lowercase letters, digits and dashes; a name is never reused')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--prices <json>', 'unit prices in micros that differ, for example {"whatsapp":3500}')
    .option('--partitions <number>', 'partitions of each of its topics', '1')
    .option('--principal <name>', 'its Kafka principal; User:<name> by default')
    .option('--trial', 'accept brokers without an authorizer: every Kafka client can read and ' +
      'write this feed')
    .example('--org org_1 --name acme --partitions 4')
    .action(runChange(context, createPartner))
  partner.command('list').description('list partners without their keys')
    .reads()
    .option('--org <id>', 'only partners of this organization')
    .example('--org org_1')
    .action(runTask(context, listPartners))
  partner.command('rotate').description('create a new key; it is shown once')
    .records(withOrganization('partner.rotated'))
    .requiredOption('--name <name>', 'name of the partner')
    .option('--grace-hours <hours>', 'how long the old key remains valid', '24')
    .example('--name acme --grace-hours 24')
    .action(runChange(context, rotatePartner))
  partner.command('types').description('choose the form of true, false and numbers in results')
    .records(withOrganization('partner.changed'))
    .requiredOption('--name <name>', 'name of the partner')
    .requiredOption('--form <form>', 'json: as in JSON results; text: all are texts, until ' +
      '2027-11-29')
    .example('--name acme --form json')
    .action(runChange(context, setPartnerTypes))
  partner.command('revoke').description('stop accepting contacts of a partner')
    .records(withOrganization('partner.revoked'))
    .requiredOption('--name <name>', 'name of the partner')
    .example('--name acme')
    .action(runChange(context, revokePartner))
}

/**
 * Creates the topics of a partner, then registers it, so that a registered partner always has its
 * topics. Its key is in this result and nowhere else.
 */
export const createPartner: Task = async (deps, options) => {
  const orgId = await organizationToChange(deps, options)
  const { name = '', prices = '', principal = `User:${name}` } = options
  checkName(name)
  // The next `provision` removes rules of a stage's user that the topology does not contain.
  const ofStages = ['', deps.topicPrefix]
    .flatMap(prefix => STAGES.map(stage => toPrincipal(stage, prefix)))
  if (ofStages.includes(principal)) {
    throw new UsageError(`${principal} is the Kafka user of a stage. Pass another principal for ` +
      'the partner: --principal <name>.')
  }
  const partitions = parsePartitions(options['partitions'])
  const pricesMicros = parsePrices(prices)
  const mode = parseMode(options)
  if (await deps.partners.find(name) !== undefined) throw nameTaken(name)
  const trial = options['trial'] !== undefined
  const rules = accessRules(name, principal)
  const rulesOfPartner = await deps.createPartnerTopics({
    topics: partnerTopics(name, partitions), rules, trial,
  })
  const random = options['random'] !== undefined
  const created = await deps.partners.create({
    name, orgId, mode, pricesMicros, partitions, random,
  })
  if (created === undefined) throw nameTaken(name)
  return {
    partner: name,
    key: created.key,
    mode,
    submitted: deps.topicPrefix + topicName('feeds.submitted', { partner: name }),
    finished: deps.topicPrefix + topicName('feeds.finished', { partner: name }),
    access: ACCESS[rulesOfPartner],
    rules: rules.map(({ operation, kind, name: on, prefix }) =>
      `${principal} ${operation} ${kind} ${deps.topicPrefix}${on}${prefix ? '*' : ''}`),
    note: 'The key is not shown again.',
  }
}

const ACCESS: Readonly<Record<RulesOfPartner, string>> = {
  created: 'Created the rules below.',
  'left to others': 'KAFKA_ACCESS_RULES leaves rules to others. Have these set at the brokers:',
  'no authorizer': 'The brokers have no authorizer, so every Kafka client has access. With an ' +
    'authorizer, allow:',
}

/** The rights of a partner: write contacts, and read results in its own consumer groups. */
function accessRules (partner: string, principal: string): readonly AccessRule[] {
  const onTopic = (topic: 'feeds.submitted' | 'feeds.finished') =>
    ({ principal, kind: 'topic', name: topicName(topic, { partner }), prefix: false }) as const
  const group = { principal, kind: 'group', name: `partner.${partner}.`, prefix: true } as const
  return [
    { ...onTopic('feeds.submitted'), operation: 'write' },
    { ...onTopic('feeds.submitted'), operation: 'describe' },
    { ...onTopic('feeds.finished'), operation: 'read' },
    { ...onTopic('feeds.finished'), operation: 'describe' },
    { ...group, operation: 'read' },
  ]
}

const listPartners: Task = async ({ partners }, { org }) => {
  const all = await partners.list()
  return { partners: all.filter(({ orgId }) => org === undefined || orgId === org).map(summarize) }
}

const revokePartner: Task = async ({ partners, organizations }, { name = '' }) => {
  const partner = await partners.find(name)
  if (partner === undefined) throw unknownPartner(name)
  await partners.revoke(name)
  const { orgId } = partner
  const { erasedAtMs } = await organizations.find(orgId) ?? {}
  return {
    partner: name,
    revoked: true,
    note: erasedAtMs === undefined
      ? 'Contacts in accepted jobs still get their results; nothing reads the others.'
      : `Organization ${orgId} was erased on ${toIsoTime(erasedAtMs)}: no contact of the ` +
        'partner gets a result any more.',
  }
}

/** Creates a new key for a partner. Its other keys remain valid for the hours of grace. */
const rotatePartner: Task = async ({ partners }, { name = '', graceHours }) => {
  const hours = parseFromZero('--grace-hours', graceHours)
  const partner = await partners.find(name)
  if (partner === undefined) throw unknownPartner(name)
  if (partner.revokedAtMs !== 0) {
    throw new UsageError(`the partner "${name}" was revoked at ` +
      `${toIsoTime(partner.revokedAtMs)}, so it gets no new key. Create another partner.`)
  }
  const rotated = await partners.rotate(name, hours * HOUR_MS)
  if (rotated === undefined) throw unknownPartner(name)
  return {
    partner: name,
    key: rotated.key,
    keys: rotated.keys.map(summarizeKey),
    note: 'The key is not shown again. Until the old key expires it encrypts the results: set ' +
      'FEED_KEY="new,old" at the partner.',
  }
}

/** Changes the form of the results that are published from now on. */
const setPartnerTypes: Task = async ({ partners }, { name = '', form }) => {
  const types = FEED_TYPES.find(word => word === form)
  if (types === undefined) {
    throw new UsageError(`--form must be ${FEED_TYPES.join(' or ')}, not "${form}".`)
  }
  if (!await partners.setTypes(name, types)) throw unknownPartner(name)
  return {
    partner: name,
    types,
    note: 'Results that are published from now on have this form, also those of contacts that ' +
      'were sent before.',
  }
}

function summarize ({ tenant: _tenant, createdAtMs, revokedAtMs, keys, ...partner }: Partner) {
  return {
    ...partner,
    createdAt: toIsoTime(createdAtMs),
    revokedAt: toIsoTime(revokedAtMs),
    keys: keys.map(summarizeKey),
  }
}

function summarizeKey ({ id, createdAtMs, expiresAtMs }: PartnerKey) {
  return { id, createdAt: toIsoTime(createdAtMs), expiresAt: toIsoTime(expiresAtMs) }
}

/** Validates the prices like a complete price list, and returns only the ones that were passed. */
function parsePrices (text: string): Readonly<Record<string, number>> {
  if (text === '') return {}
  try {
    readPrices(text)
    return JSON.parse(text) as Record<string, number>
  } catch (error) {
    const why = error instanceof Error ? error.message.replace('PRICES', '--prices') : ''
    throw new UsageError('--prices must be a JSON object of micros by service, like ' +
      `{"whatsapp":3500}, not "${text}". ${why}`)
  }
}

function parsePartitions (text = ''): number {
  const partitions = Number(text)
  if (Number.isInteger(partitions) && partitions >= 1 && partitions <= MAX_PARTITIONS) {
    return partitions
  }
  throw new UsageError(`--partitions must be a whole number from 1 to ${MAX_PARTITIONS}, not ` +
    `"${text}".`)
}

function unknownPartner (name: string): UsageError {
  return new UsageError(`the partner "${name}" does not exist. List partners with "partner list".`)
}

function nameTaken (name: string): UsageError {
  return new UsageError(`the name "${name}" belongs or belonged to a partner. Pass another name: ` +
    '--name <name>.')
}
