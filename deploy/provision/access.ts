import {
  stageRules, compareAccessRules, createAccessRules, deleteOtherAccessRules, NO_AUTHORIZER,
} from '../../services/runtime/kafka/admin.ts'
import type { KafkaAdmin } from '../../services/runtime/kafka/client.ts'
import { kafkaErrorType } from '../../services/runtime/kafka/connection.ts'
import { isDenial } from '../../services/runtime/platform/errors.ts'

/**
 * Sets the ACLs of all stages to those of the topology, or compares them. Creates new ACLs before
 * it deletes others, so that running services keep their access; `keepsOthers` leaves these to a
 * later run, as processes of the release before may still need some. Says what to do where brokers
 * do not let it: many managed ones have rules that only their operator sets.
 */
export async function alignAccess (
  admin: KafkaAdmin, mode: 'manage' | 'check' | 'off', say: (line: string) => void, prefix = '',
  keepsOthers = false
): Promise<void> {
  if (mode === 'off') return say('ACLs: left as they are, KAFKA_ACCESS_RULES is off')
  const rules = stageRules(prefix)
  try {
    if (mode === 'check') return sayDifferences(await compareAccessRules(admin, rules), say)
    if (!await createAccessRules(admin, rules)) return say(WITHOUT_AUTHORIZER)
    if (keepsOthers) {
      return say(`ACLs: ${rules.length} in place for the stages, others are left as they are`)
    }
    const removed = await deleteOtherAccessRules(admin, rules)
    say(`ACLs: ${rules.length} in place for the stages, ${removed} others deleted`)
  } catch (error) {
    const type = kafkaErrorType(error)
    if (type === NO_AUTHORIZER) return say(WITHOUT_AUTHORIZER)
    if (!isDenial(type)) throw error
    say(`warning: ACLs: the brokers refuse them to this user (${type}). Set those of ` +
      'deploy/docs/security.md yourself, and KAFKA_ACCESS_RULES=check or off')
  }
}

const WITHOUT_AUTHORIZER =
  'ACLs: none, the brokers have no authorizer, so every client has full access'

function sayDifferences (
  { missing, surplus }: Awaited<ReturnType<typeof compareAccessRules>>, say: (line: string) => void
): void {
  for (const { principal, operation, kind, name, prefix } of missing) {
    say(`warning: ACLs: ${principal} lacks ${operation} on ${kind} ${name}${prefix ? '*' : ''}`)
  }
  for (const { principal, resourceName } of surplus) {
    say(`warning: ACLs: ${principal} has a rule on ${resourceName} that no stage needs`)
  }
  say(`ACLs: compared, ${missing.length} missing, ${surplus.length} others of the stages`)
}
