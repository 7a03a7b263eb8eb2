import { secretsFile } from '../../../services/runtime/platform/command-environment.ts'
import type { Say } from '../parts.ts'
import { readJson, writePrivately } from '../json-file.ts'
import { demoFile, type Demo } from './state.ts'

type Env = Record<string, string>

/** What happens between infrastructure and services, with addresses and secrets in `env`. */
export type Prepare = (env: Env, dataDir: string, say: Say) => Promise<Demo>

/**
 * Creates topics, schemas and tables, and the demonstration organization with a partner. Keys are
 * shown only when they are made, so both are made once a data folder and kept in `demo.json`; again
 * if the organization was erased.
 */
export const prepareStack: Prepare = async (env, dataDir, say) => {
  const { provision } = await import('../../provision.ts')
  await provision(env)
  const missing = await missingRootKeys(env)
  if (missing.length > 0) {
    say(`warning: ${secretsFile(dataDir)} lacks ${missing.join(' and ')}. Stored data needs it, ` +
      'and cannot be read: put it back, run "npm run down", then start again.')
  }
  const { createDemo, createDemoPartner, isErased } =
    await import('../../../services/admin/demo.ts')
  const file = demoFile(dataDir)
  const earlier = readJson<Demo>(file)
  const usable = earlier === undefined || await isErased(env, earlier.orgId) ? undefined : earlier
  if (usable?.feed !== undefined) return usable
  const created = usable ?? await createDemo(env)
  // Kept at once: should the partner fail, the organization is not made a second time.
  writePrivately(file, created)
  const demo = { ...created, feed: await createDemoPartner(env, created.orgId) }
  writePrivately(file, demo)
  return demo
}

/** The root keys that wrap keys of organizations and are not in `env`. */
async function missingRootKeys (env: Env): Promise<readonly string[]> {
  const { withWorkspace } = await import('../../../services/admin/deps.ts')
  const report = await import('../../../services/admin/key-rotation.ts')
  return await withWorkspace(env, async ({ organizations, organizationKeys }) => {
    const ids = (await organizations.list()).map(({ id }) => id)
    const { store, roots } = organizationKeys
    return report.missingRootKeys(await report.readOrganizationKeys(store, ids), roots)
  })
}
