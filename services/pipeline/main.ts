import { runServices } from '../runtime/platform/run.ts'
import { hostConfig, hostedBy, HOSTED, type Hosted } from './config.ts'

type Start = Parameters<typeof runServices>[2][number][string]

const hosted = await Promise.all(hostedBy(process.env).map(async name =>
  [name, await HOSTED[name]() as Hosted] as const))
const pickServices = (areFront: boolean) => Object.fromEntries(hosted
  .filter(([name]) => (name === 'ingest' || name === 'page') === areFront)
  .map(([name, { start }]) => [name, start as Start] as const))

// The last group stops first: stages still work while requests under way are answered.
await runServices('pipeline', hostConfig(hosted.map(([, service]) => service)), [
  pickServices(false), pickServices(true),
])
