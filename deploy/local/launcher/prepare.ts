import { demoFile, readJson, writePrivately, type Demo } from './state.ts'

/** What happens between infrastructure and services, with addresses and secrets in `env`. */
export type Prepare = (env: Record<string, string>, dataDir: string) => Promise<Demo>

/**
 * Creates topics, schemas and tables, and the demonstration organization with a partner. Keys are
 * shown only when they are made, so both are made once a data folder and kept in `demo.json`; again
 * if the organization was erased.
 */
export const prepareStack: Prepare = async (env, dataDir) => {
  const { provision } = await import('../../provision.ts')
  await provision(env)
  const file = demoFile(dataDir)
  const known = await usableDemo(env, file)
  if (known?.feed !== undefined) return known
  const made = known ?? await makeDemo(env)
  // Kept at once: should the partner fail, the organization is not made a second time.
  writePrivately(file, made)
  const { createDemoPartner } = await import('../../../services/workspace/demo.ts')
  const demo = { ...made, feed: await createDemoPartner(env, made.orgId) }
  writePrivately(file, demo)
  return demo
}

async function usableDemo (env: Record<string, string>, file: string): Promise<Demo | undefined> {
  const known = readJson<Demo>(file)
  if (known === undefined) return undefined
  const { isErased } = await import('../../../services/workspace/demo.ts')
  return await isErased(env, known.orgId) ? undefined : known
}

async function makeDemo (env: Record<string, string>): Promise<Demo> {
  const { createDemo } = await import('../../../services/workspace/demo.ts')
  const { orgId, keys, webhookSecret } = await createDemo(env)
  return { orgId, keys, webhookSecret }
}
