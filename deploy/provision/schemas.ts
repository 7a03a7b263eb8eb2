import { COMPATIBILITY, SchemaType } from '@kafkajs/confluent-schema-registry'
import { connectRegistry, registryAccessErrorOf } from '../../services/kafka/registry.ts'
import { ownSchemas } from '../../services/kafka/schemas.ts'

/**
 * Registers all schemas. Releases overlap during an upgrade and topics keep old messages, so each
 * version must be backward and forward compatible with all earlier versions.
 */
export async function registerSchemas (
  url: string, say: (line: string) => void
): Promise<void> {
  const registry = connectRegistry(url)
  const schemas = ownSchemas()
  for (const [subject, { json }] of schemas) {
    try {
      await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(json) }, {
        subject, compatibility: COMPATIBILITY.FULL_TRANSITIVE,
      })
    } catch (cause) {
      throw new Error(faultOf(subject, cause), { cause })
    }
  }
  say(`schemas: ${schemas.size} subjects registered`)
}

function faultOf (subject: string, cause: unknown): string {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const refusal = registryAccessErrorOf(cause)
  if (refusal !== undefined) return refusal
  const refused = cause instanceof Error && 'status' in cause && cause.status === 409
  if (!refused && !/incompatible/i.test(reason)) {
    return `the schema of ${subject} could not be registered: ${reason}`
  }
  return `the schema of ${subject} is incompatible with a version that is registered, which ` +
    'running services and stored messages still use. Only add fields that have a default, or ' +
    `remove ones that had a default: ${reason}`
}
