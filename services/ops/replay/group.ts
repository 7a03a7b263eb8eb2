import { subscriptionsOf, type Subscription } from '../../lib/topics.ts'
import { stageOf } from '../stages.ts'
import { UsageError } from '../../lib/run-command.ts'

export type Named = {
  readonly stage: string
  readonly group?: string | undefined
  readonly topic?: string | undefined
}

/** A group that is meant, and the topics of it. */
export type Meant = { readonly group: string, readonly topics: readonly string[] }

/**
 * The one group that is meant by its name, by a topic it reads, or as the only one of its stage.
 * @throws UsageError with what there is, when none or several are.
 */
export function groupOf ({ stage, group, topic }: Named): Meant {
  const all = subscriptionsOf(stageOf(stage))
  if (all.length === 0) throw new UsageError(whyNone(stage))
  const fitting = all.filter(one => (group === undefined || one.group === group) &&
    (topic === undefined || one.topics.includes(topic)))
  const [found, ...more] = fitting
  if (found !== undefined && more.length === 0) {
    return { group: found.group, topics: topic === undefined ? found.topics : [topic] }
  }
  const fault = found === undefined ? 'No group fits this' : 'Name one group'
  throw new UsageError(`${fault}: --group or --topic is one of\n${all.map(lineOf).join('\n')}`)
}

const lineOf = ({ group, topics }: Subscription) => `  ${group}: ${topics.join(', ')}`

function whyNone (stage: string): string {
  return stage === 'feed'
    ? 'Contacts of partners are taken by cursors of their own, and each of them once: there is ' +
      'nothing to replay in feed.'
    : `${stage} reads no topic; customers send their requests again with the same Idempotency-Key.`
}
