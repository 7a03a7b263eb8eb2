import {
  type FeedConnection, openFeed, readFeedSettings,
} from '../../../services/feed/send/connection.ts'
import {
  type openContactFile, type ResultFile, sendContacts, type SendOptions, type SendSummary,
} from '../../../services/feed/send/send.ts'
import { parsePartnerKey } from '../../../schemas/feeds/seal.ts'
import { chooseFeedGroup } from '../../../services/runtime/platform/topics.ts'
import { withWorkspace } from '../../../services/admin/deps.ts'
import { createPartner } from '../../../services/admin/partners.ts'
import { commandOn } from '../admin.ts'

const topUp = commandOn('topup')
const createOrganization = commandOn('org create')

export type TestPartner = {
  readonly name: string
  readonly org: string
  readonly key: Buffer
  /** Adds money to the balance that pays. */
  readonly topUp: (usd: string) => Promise<void>
  /** By its key, or by other ones. */
  readonly connect: (...keys: readonly Buffer[]) => Promise<FeedConnection>
}

type Result = Parameters<ResultFile['write']>[0]
export type FileContact =
  ReturnType<typeof openContactFile>['contacts'] extends AsyncIterable<infer C> ? C : never
export type Fed = { readonly summary: SendSummary, readonly results: readonly Result[] }

let made = 0

/** An organization with a partner of its own, and a balance in USD. */
export async function createTestPartner (
  env: Record<string, string>,
  options: {
    readonly usd?: string,
    readonly prices?: string,
    readonly partitions?: string,
    /** A partner whose consumer group it shares. */
    readonly beside?: string,
  } = {}
): Promise<TestPartner> {
  const { beside } = options
  const isBeside = (one: string) =>
    beside === undefined || chooseFeedGroup(one) === chooseFeedGroup(beside)
  let name: string
  do name = `acme-${process.pid}-${made++}`
  while (!isBeside(name))
  return await withWorkspace(env, async parts => {
    const { id } = await createOrganization(parts, { name }) as { id: string }
    const own = { org: id, mode: 'live' }
    const { usd, prices = '', partitions = '4' } = options
    if (usd !== undefined) await topUp(parts, { ...own, usd })
    const created = await createPartner(parts, { ...own, name, prices, partitions, trial: 'yes' })
    const key = parsePartnerKey(String(created['key']))
    return {
      name,
      org: id,
      key,
      topUp: async more => {
        await withWorkspace(env, async again => { await topUp(again, { ...own, usd: more }) })
      },
      connect: (sealing = key, ...others) => openFeed({
        settings: readFeedSettings(env),
        partner: name,
        keys: [sealing, ...others],
      }),
    }
  })
}

/** Sends contacts and waits for a result of each. */
export async function feedContacts (
  partner: TestPartner, contacts: readonly FileContact[], options: Partial<SendOptions> = {}
): Promise<Fed> {
  const feed = await partner.connect()
  const results: Result[] = []
  try {
    const summary = await sendContacts({
      feed,
      source: { contacts: streamOf(contacts), read: () => 1 },
      output: { write: result => { results.push(result) }, finish: async () => {} },
    }, {
      service: 'phone-validation',
      countryCode: 'US',
      forceFresh: false,
      silenceMs: 400_000,
      ...options,
    })
    return { summary, results }
  } finally {
    await feed.close()
  }
}

async function * streamOf (contacts: readonly FileContact[]): AsyncIterable<FileContact> {
  yield * contacts
}

/** Sends contacts without waiting for results; by the key of the partner, or by other ones. */
export async function sendTo (
  partner: TestPartner, inputs: readonly string[], ...keys: readonly Buffer[]
): Promise<void> {
  const feed = await partner.connect(...keys)
  await feed.send(inputs.map((input, index) => ({
    reference: `c${index}`,
    service: 'phone-validation',
    countryCode: '',
    forceFresh: false,
    input,
  })))
  await feed.close()
}
