import { rmSync } from 'node:fs'
import { kafkaParts } from '../../../deploy/local/kafka.ts'
import type { PartOptions } from '../../../deploy/local/parts.ts'
import { openPortBook } from '../../../deploy/local/ports.ts'
import type { ProcessSpec } from '../../../deploy/local/process.ts'
import { newFolder } from '../folder.ts'
import { createPart } from '../stacks/processes.ts'

export type OwnBroker = Awaited<ReturnType<typeof startOwnBroker>>

/** A node of Kafka that is a cluster by itself. */
export async function kafkaPart (
  options: PartOptions
): Promise<{ readonly spec: ProcessSpec, readonly brokers: string }> {
  const { specs: [spec], brokers } = await kafkaParts(options, 1)
  return { spec: spec!, brokers }
}

/** A broker that no other test uses. */
export async function startOwnBroker () {
  const dataDir = newFolder('verification-jobs-broker-')
  const ports = openPortBook(dataDir)
  const { spec, brokers } = await kafkaPart({ dataDir, ports, say: () => {} })
  const part = createPart(spec)
  await part.up()
  return {
    brokers: [brokers],
    close: async () => {
      await part.down()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
