import { installRedis } from '../../deploy/local/parts.ts'

/** Runs once before a project whose files start a redis-server of their own. */
export default async function setup (): Promise<void> {
  await installRedis(line => console.log(line))
}
