import { readJson, writePrivately, type Demo } from './state.ts'

/** What happens between infrastructure and services, with addresses and secrets in `env`. */
export type Prepare = (env: Record<string, string>, dataDir: string) => Promise<Demo>

/**
 * Creates topics, schemas and tables, and the demonstration organization. Keys are shown only
 * when they are made, so the organization is made once a data folder and kept in `demo.json`.
 */
export const prepareStack: Prepare = async (env, dataDir) => {
  const { provision } = await import('../../provision.ts')
  await provision(env)
  const file = `${dataDir}/demo.json`
  const known = readJson<Demo>(file)
  if (known) return known
  const { createDemo } = await import('../../../services/workspace/demo.ts')
  const { orgId, keys, webhookSecret } = await createDemo(env)
  const demo = { orgId, keys, webhookSecret }
  writePrivately(file, demo)
  return demo
}
