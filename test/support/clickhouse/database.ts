import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll } from 'vitest'
import { Clickhouse } from '../../../services/runtime/platform/clickhouse.ts'
import { stackEnv } from '../stacks/stack.ts'

function databaseOn (stack: Readonly<Record<string, string>>) {
  const database = `test_${randomUUID().replaceAll('-', '')}`
  const url = new URL(stack['CLICKHOUSE_URL'] ?? '')
  const outer = new Clickhouse(url.href)
  url.pathname = database
  return {
    database,
    outer,
    env: { ...stack, CLICKHOUSE_URL: url.href },
    create: async () => { await outer.command(`CREATE DATABASE ${database}`) },
    drop: async () => {
      await outer.command(`DROP DATABASE IF EXISTS ${database} SYNC`)
      await outer.close()
    },
  }
}

/** A new database without tables; `env` is that of the stack with it. */
export async function createDatabase (stack: Readonly<Record<string, string>>) {
  const { create, env, drop } = databaseOn(stack)
  await create()
  return { env, drop }
}

/** A database of its own for a test file, without tables, and the stack's addresses with it. */
export function ownDatabase () {
  const { create, drop, ...own } = databaseOn(stackEnv())
  beforeAll(create)
  afterAll(drop)
  return own
}

/**
 * A statement for a cluster as the engine of the stack runs it, which is a cluster of one server
 * without Keeper: without `ON CLUSTER` and replication.
 */
export const withoutKeeper = (query: string): string => query
  .replace(/ ON CLUSTER '\w+'/, '').replace(/ReplicatedMergeTree\([^)]*\)/, 'MergeTree')
  .replace(' replicated_deduplication_window', ' non_replicated_deduplication_window')
