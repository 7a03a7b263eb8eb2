import type { Fault } from './fault.ts'
import { batchVendor, failpoints } from './scenarios/failpoints.ts'
import { broker } from './scenarios/broker.ts'
import { clusters } from './scenarios/cluster.ts'
import { disks } from './scenarios/disk.ts'
import { processes } from './scenarios/processes.ts'
import { links } from './scenarios/links.ts'
import { outside } from './scenarios/outside.ts'
import { restored } from './scenarios/restored.ts'
import { stores } from './scenarios/stores.ts'

/** Every fault there is, in the order they are run: those that need services of their own last. */
export const CATALOGUE: readonly Fault[] = [
  ...failpoints, ...processes, ...stores, ...disks, ...outside, batchVendor, ...broker,
  ...links, ...restored, ...clusters,
]
