import type { Admin } from 'kafkajs'
import { stageRules } from '../../services/kafka/access-rules.ts'
import { createAccessRules, deleteOtherAccessRules } from '../../services/kafka/admin.ts'

/**
 * Allows the user of each stage what the topology gives it, and nothing else any more. New rules
 * come first, so that running services lose nothing in between. Brokers without an authorizer keep
 * no rules: that is said.
 */
export async function alignAccess (admin: Admin, say: (line: string) => void): Promise<void> {
  const rules = stageRules()
  if (!await createAccessRules(admin, rules)) {
    return say('access: the brokers have no authorizer and let everybody do everything')
  }
  const removed = await deleteOtherAccessRules(admin, rules)
  say(`access: ${rules.length} rules of stages hold, ${removed} others removed`)
}
