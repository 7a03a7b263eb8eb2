import type { Fault } from './fault.ts'
import { batchVendor } from './scenarios/batch-vendor.ts'
import { broker } from './scenarios/broker.ts'
import { cluster } from './scenarios/cluster.ts'
import { disks } from './scenarios/disk.ts'
import { failpoints } from './scenarios/failpoints.ts'
import { fleet } from './scenarios/fleet.ts'
import { kafkaRequests } from './scenarios/kafka.ts'
import { kills } from './scenarios/kills.ts'
import { links } from './scenarios/links.ts'
import { mail } from './scenarios/mail.ts'
import { messages } from './scenarios/messages.ts'
import { outside } from './scenarios/outside.ts'
import { partitions } from './scenarios/partitions.ts'
import { processes } from './scenarios/processes.ts'
import { stores } from './scenarios/stores.ts'
import { synchronousRequests } from './scenarios/synchronous.ts'

/** Every fault there is, in the order they are run: those that need services of their own last. */
export const CATALOGUE: readonly Fault[] = [
  ...failpoints, ...synchronousRequests, ...kills, ...processes, ...stores, ...disks,
  ...messages, ...outside, ...batchVendor, ...mail, ...broker, ...kafkaRequests, ...links,
  ...cluster, ...partitions, ...fleet,
]
