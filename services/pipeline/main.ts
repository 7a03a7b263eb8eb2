import { runServices } from '../platform/run.ts'
import { hostConfig, hostedBy } from './config.ts'
import { HOSTED } from './hosted.ts'

const names = hostedBy(process.env)
// Readers start before writers, and writers stop first, so that no stage waits for one that is gone.
const services = await Promise.all(names.toReversed().map(async name => {
  const start = await HOSTED[name].load()
  return [name, start as Parameters<typeof runServices>[2][string]] as const
}))
await runServices('pipeline', hostConfig(names), Object.fromEntries(services))
