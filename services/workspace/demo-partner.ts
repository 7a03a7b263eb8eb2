import { randomBytes } from 'node:crypto'
import type { Environment } from './environment.ts'
import { createPartner } from './partner-tasks.ts'
import { withWorkspace } from './parts.ts'

/** Whose feed it is, and with which key. */
export type DemoPartner = { readonly partner: string, readonly key: string }

/** Makes a partner of an organization, to try bulk feeds with; its contacts are checked live. */
export async function createDemoPartner (env: Environment, orgId: string): Promise<DemoPartner> {
  // A new name each time: one that was given can't be given again.
  const name = `demo-${randomBytes(4).toString('hex')}`
  const options = {
    org: orgId, name, mode: 'live', partitions: '4', trial: 'yes', random: 'yes',
  }
  const made = await withWorkspace(env, parts => createPartner(parts, options))
  return { partner: name, key: String(made['key']) }
}
