import {
  clickhouseKeys, commonConfig, defineConfig, pick, stateKeys,
} from '../../../services/runtime/platform/config.ts'
import { connectDeps } from '../../../services/runtime/engine/connections.ts'
import { run } from '../../../services/runtime/platform/run.ts'

/** What Redis and ClickHouse answered, or why they did not. */
export type StoreNews = { readonly redis: string, readonly clickhouse: string }

const config = defineConfig(pick(commonConfig, [...stateKeys, ...clickhouseKeys]))

/** A service that asks its stores one thing; in a process of its own, as `secure-member.ts`. */
await run('stores', config, async (settings, context) => {
  const { state, clickhouse } = await connectDeps(settings, context, ['state', 'clickhouse'])
  const answered = async (asking: Promise<unknown>) =>
    String(await asking.catch((error: Error) => `failed: ${error.message}`))
  const query = clickhouse.query({ query: 'SELECT 1 + 1 AS sum', format: 'JSONEachRow' })
  const [redis, sum] = await Promise.all([
    answered(state.ping()),
    answered(query.then(async rows => JSON.stringify(await rows.json()))),
  ])
  process.send?.({ redis, clickhouse: sum } satisfies StoreNews)
  return { ready: () => true }
})
