import { READING_STAGES, STAGES, topology, type StageName, type TopicName } from '../topology.ts'
import { deadTopic, topicPattern } from '../platform/topics.ts'
import type { AccessRule } from './admin.ts'

type Right = Omit<AccessRule, 'principal'>
type Operation = AccessRule['operation']

/** As whom a stage signs in at the brokers: its user has the name of the stage. */
export const principalOf = (stage: StageName): string => `User:${stage}`

/**
 * Everything that the user of a stage may do at the brokers, from the topology. Who may read or
 * write a topic may describe it. No right is needed to be an idempotent producer: brokers since 2.8
 * give it to everyone who may write to some topic.
 */
export function rulesOf (stage: StageName): readonly AccessRule[] {
  const { writes } = topology.stages[stage]
  const { all, ledger } = topology.recovery
  const reads = new Set<TopicName>(
    [...topology.stages[stage].reads, ...all, ...stage === 'ledger' ? ledger : []])
  const rights: readonly Right[] = [
    ...onTopics([...reads], 'read'),
    ...onTopics(writes, 'write'),
    ...READING_STAGES.includes(stage) ? [deadLetters(stage)] : [],
    ...onGroups(stage, 'read'),
    // A stage deletes the groups that it made for recovery reads.
    ...onGroups(stage, 'delete'),
    // The ledger measures the lag of every group.
    ...stage === 'ledger' ? watching(READING_STAGES.filter(one => one !== stage)) : [],
  ]
  return rights.map(right => ({ principal: principalOf(stage), ...right }))
}

/** The rules of all stages. Partners have theirs beside these, everybody else has none. */
export const stageRules = (): readonly AccessRule[] => STAGES.flatMap(rulesOf)

function onTopics (topics: readonly TopicName[], operation: Operation): readonly Right[] {
  return topics.map(topic => ({ kind: 'topic', ...topicPattern(topic), operation }))
}

/** Groups are named after their stage, and mostly by more behind a dot. */
function onGroups (stage: StageName, operation: Operation): readonly Right[] {
  return [
    { kind: 'group', name: stage, prefix: false, operation },
    { kind: 'group', name: `${stage}.`, prefix: true, operation },
  ]
}

function deadLetters (stage: StageName): Right {
  return { kind: 'topic', name: deadTopic(stage), prefix: false, operation: 'write' }
}

/** Groups of partners' topics are left out of the lag. */
function watching (stages: readonly StageName[]): readonly Right[] {
  const topics = new Set<TopicName>(stages.flatMap(stage => topology.stages[stage].reads))
  const own = [...topics].filter(topic => topology.topics[topic].split !== 'partner')
  return [
    ...onTopics(own, 'describe'),
    ...stages.flatMap(stage => onGroups(stage, 'describe')),
  ]
}
