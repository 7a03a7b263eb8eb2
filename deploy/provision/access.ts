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
    return say('access: the brokers have no authorizer and let everybody do everything')
  }
  const removed = await deleteOtherAccessRules(admin, rules)
  say(`access: ${rules.length} rules of stages hold, ${removed} others removed`)
}
