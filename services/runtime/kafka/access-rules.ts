import { READING_STAGES, STAGES, topology, type StageName, type TopicName } from '../../topology.ts'
import { deadTopic, topicPattern } from '../platform/topics.ts'
import type { AccessRule } from './admin.ts'
import { TOPICS_BY_JOB } from './partitioning.ts'

type Right = Omit<AccessRule, 'principal'>
type Operation = AccessRule['operation']

/** The principal of a stage: its user has the name of the stage, after the prefix of the topics. */
export const principalOf = (stage: StageName, prefix = ''): string => `User:${prefix}${stage}`

/**
 * The ACLs of a stage, from the topology. Read and write include describe. An idempotent producer
 * needs no ACL of its own: since Kafka 2.8, write access to any topic is enough.
 */
export function rulesOf (stage: StageName, prefix = ''): readonly AccessRule[] {
  const { writes } = topology.stages[stage]
  const { all, ledger } = topology.recovery
  const reads = new Set<TopicName>(
    [...topology.stages[stage].reads, ...all, ...stage === 'ledger' ? ledger : []])
  const rights: readonly Right[] = [
    ...onTopics([...reads], 'read'),
    ...onTopics(writes, 'write'),
    // Submitters watch the partitions that the messages of a job are spread over.
    ...(writes as readonly TopicName[]).includes('rows.submitted')
      ? onTopics(TOPICS_BY_JOB, 'describe')
      : [],
    ...READING_STAGES.includes(stage)
      ? [{ kind: 'topic', name: deadTopic(stage), prefix: false, operation: 'write' } as const]
      : [],
    ...onGroups(stage, 'read'),
    // A stage deletes the temporary groups of its recovery reads.
    ...onGroups(stage, 'delete'),
    // `ledger` measures the lag of all groups.
    ...stage === 'ledger' ? lagRights(READING_STAGES.filter(reader => reader !== stage)) : [],
  ]
  return rights.map(right => ({ principal: principalOf(stage, prefix), ...right }))
}

/** The ACLs of all stages. Partners have their own; no other principal has any. */
export const stageRules = (prefix = ''): readonly AccessRule[] =>
  STAGES.flatMap(stage => rulesOf(stage, prefix))

function onTopics (topics: readonly TopicName[], operation: Operation): readonly Right[] {
  return topics.map(topic => ({ kind: 'topic', ...topicPattern(topic), operation }))
}

/** The names of groups start with the stage, mostly followed by a dot and more. */
function onGroups (stage: StageName, operation: Operation): readonly Right[] {
  return [
    { kind: 'group', name: stage, prefix: false, operation },
    { kind: 'group', name: `${stage}.`, prefix: true, operation },
  ]
}

/** Describe access for the lag; the groups of partner topics are left out. */
function lagRights (stages: readonly StageName[]): readonly Right[] {
  const topics = new Set<TopicName>(stages.flatMap(stage => topology.stages[stage].reads))
  const own = [...topics].filter(topic => topology.topics[topic].split !== 'partner')
  return [
    ...onTopics(own, 'describe'),
    ...stages.flatMap(stage => onGroups(stage, 'describe')),
  ]
}
