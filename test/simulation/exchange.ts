import type { RedisLine } from './redis-line.ts'
import type { Reply } from './replies.ts'
import { clockCommand, type PendingCommand, type Scripts } from './simulated-redis.ts'

export type Exchange = {
  readonly nowMs: number
  readonly runId: string
  readonly scripts: Scripts
}

/**
 * The answers to commands, in their order. Scripts read the loop's clock, which a server that lost
 * everything has lost as well.
 */
export async function exchange (
  line: RedisLine, pending: readonly PendingCommand[], { nowMs, runId, scripts }: Exchange
): Promise<readonly Reply[]> {
  await scripts.load(line)
  const clock = clockCommand(nowMs, runId)
  const commands: (string | Buffer)[] = [clock]
  const places: number[] = []
  for (const { command } of pending) {
    places.push(commands.length)
    commands.push(command.toWritable())
    if (command.name.startsWith('flush')) commands.push(clock)
  }
  const answers = await line.exchange(commands)
  return places.map(place => answers[place] ?? null)
}
