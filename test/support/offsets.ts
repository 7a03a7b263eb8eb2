import { Kafka, logLevel, type Admin } from 'kafkajs'

type Env = Readonly<Record<string, string>>

async function withAdmin<T> (env: Env, work: (admin: Admin) => Promise<T>): Promise<T> {
  const brokers = (env.KAFKA_BROKERS ?? '').split(',')
  const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

/** Deletes the committed offsets of every consumer group; the groups must be empty. */
export async function forgetOffsets (env: Env): Promise<void> {
  await withAdmin(env, async admin => {
    const { groups } = await admin.listGroups()
    await admin.deleteGroups(groups.map(group => group.groupId))
  })
}

async function isBehind (admin: Admin, groupId: string): Promise<boolean> {
  for (const { topic, partitions } of await admin.fetchOffsets({ groupId })) {
    const ends = await admin.fetchTopicOffsets(topic)
    const committed = new Map(partitions.map(({ partition, offset }) => [partition, offset]))
    const behind = ends.some(({ partition, high }) =>
      Number(high) > 0 && Number(committed.get(partition) ?? -1) < Number(high))
    if (behind) return true
  }
  return false
}

/** Resolves once every group has committed the end of everything it reads; looks every 200 ms. */
export async function untilConsumed (env: Env, timeoutMs = 90_000): Promise<void> {
  const giveUpAt = Date.now() + timeoutMs
  await withAdmin(env, async admin => {
    for (;;) {
      const { groups } = await admin.listGroups()
      const behind = await Promise.all(groups.map(({ groupId }) => isBehind(admin, groupId)))
      if (groups.length > 0 && !behind.includes(true)) return
      if (Date.now() > giveUpAt) throw new Error('the groups did not reach the end of their topics')
      await new Promise(resolve => setTimeout(resolve, 200))
    }
  })
}
