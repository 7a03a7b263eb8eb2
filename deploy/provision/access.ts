import type { Admin } from 'kafkajs'
import { stageRules } from '../../services/kafka/access-rules.ts'
import { createAccessRules, deleteOtherAccessRules } from '../../services/kafka/admin.ts'

/**
 * Sets the ACLs of all stages to those of the topology. Creates new ACLs before it deletes others,
 * so that running services keep their access. Reports brokers without an authorizer, which store
 * none.
 */
export async function alignAccess (admin: Admin, say: (line: string) => void): Promise<void> {
  const rules = stageRules()
  if (!await createAccessRules(admin, rules)) {
    return say('ACLs: not created, the brokers have no authorizer, so every client has full access')
  }
  const removed = await deleteOtherAccessRules(admin, rules)
  say(`ACLs: ${rules.length} in place for the stages, ${removed} others deleted`)
}
